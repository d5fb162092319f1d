// Footer of one layer: its blocks and arrays (FORMAT.md, "Footer"). Everything is checked on construction, except
// references between records: block ids, ranks, chunk sizes. Those are checked on use, since a layer may hold records
// that are no longer read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/array_file/layer/archive.h"

namespace atompack::array_file {

// In the order of their tags.
enum class Type : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float32,
  float64,
  string,
  binary,
  fixed_list,
  list,
  timestamp,
};

std::string_view name_of(Type type);
// Size of one value; 0 if values differ in length.
uint64_t item_bytes(Type type);

// Nanoseconds since 1970, UTC.
struct Timestamp {
  int64_t nanoseconds = 0;
  bool operator==(const Timestamp&) const = default;
};

using Fill = std::variant<bool, int64_t, uint64_t, double, std::string_view, Timestamp>;

using AttributeValue = std::variant<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                                    float, double, std::string_view>;

struct Attribute {
  std::string_view key;
  AttributeValue value;
};

struct BlockRecord {
  uint32_t id = 0;
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
  std::optional<std::string_view> codec;
};

// A range of a decoded block.
struct ChunkRecord {
  Run coordinate;
  uint32_t block = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// Views into the footer; valid as long as its bytes.
struct ArrayRecord {
  std::string_view name;
  Type type = Type::boolean;
  Run shape, dimension_names, chunk_shape, chunks;
  std::optional<Fill> fill;
  bool deleted = false;
  uint64_t attributes = 0;
};

// Keeps a view of `archive`. Cheap to copy; const methods are thread-safe.
class Footer {
 public:
  // Throws CorruptFileError; UnsupportedFormatError for other versions.
  explicit Footer(Bytes archive);

  uint64_t n_blocks() const { return blocks_.count; }
  BlockRecord block(uint64_t index) const;
  uint64_t n_arrays() const { return arrays_.count; }
  ArrayRecord array(uint64_t index) const;
  std::string_view array_name(uint64_t index) const;

  ChunkRecord chunk(Run chunks, uint64_t index) const;
  uint32_t integer(Run integers, uint64_t index) const { return archive_.load<uint32_t>(integers.at + 4 * index); }
  std::vector<uint64_t> integers(Run integers) const;
  std::vector<std::string> strings(Run strings) const;
  // Throws CorruptFileError for a key or value that does not exist.
  std::vector<Attribute> attributes(const ArrayRecord& array) const;

 private:
  AttributeValue attribute_value(uint64_t index) const;

  Archive archive_;
  Run blocks_, arrays_, attribute_keys_, attribute_values_;
};

}  // namespace atompack::array_file
