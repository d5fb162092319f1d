// Footer of one layer: its blocks and arrays (FORMAT.md, "Footer"). Everything is checked on construction, except
// references between records: block ids, ranks, chunk sizes. Those are checked on use, since a layer may hold records
// that are no longer read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/names.h"
#include "formats/array_file/layer/archive.h"

namespace atompack::array_file {

// Trailer of a file: the length of the preceding archive, and a magic number.
inline constexpr std::string_view kLayerMagic = "ARRF", kStatisticsMagic = "ARST";
inline constexpr uint64_t kTrailerBytes = 12;

struct Parts {
  Bytes blocks, archive;
};

// Returns the size of the footer, given the trailer of a file of `file_bytes`. Throws CorruptFileError unless the
// trailer is complete and ends in `magic`, and the footer is inside the file.
uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic = kLayerMagic);

// Splits a file at its footer. Throws CorruptFileError unless it ends in `magic`.
Parts split_file(Bytes file, std::string_view magic);

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic);

// Versions of footers. The first one is written to array files and stores, 6 to collections.
inline constexpr uint32_t kFooterVersion = 4, kFooterVersion5 = 5, kFooterVersion6 = 6;

struct Root {
  uint64_t at = 0;
  uint32_t version = 0;
};

// Validation of a footer: bounds, tags, strings, and its version. Throws CorruptFileError; UnsupportedFormatError for
// other versions.
Root check_footer(Bytes archive);

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

constexpr Names<16> names_of(Type) {
  return {"dtype",
          {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
           "string", "binary", "fixed-size list", "list", "timestamp_ns"}};
}
// Size of one value; 0 if values differ in length.
uint64_t item_bytes(Type type);

// Nanoseconds since 1970, UTC.
struct Timestamp {
  int64_t nanoseconds = 0;
  bool operator==(const Timestamp&) const = default;
};

using Fill = std::variant<bool, int64_t, uint64_t, double, std::string_view, Timestamp>;

// In the order of the tags; from version 5 on also binary values and lists. No footer holds a timestamp.
using AttributeValue =
    std::variant<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float, double,
                 std::string_view, Bytes, std::vector<bool>, std::vector<int8_t>, std::vector<int16_t>,
                 std::vector<int32_t>, std::vector<int64_t>, std::vector<uint8_t>, std::vector<uint16_t>,
                 std::vector<uint32_t>, std::vector<uint64_t>, std::vector<float>, std::vector<double>,
                 std::vector<std::string_view>, std::vector<Bytes>, Timestamp>;
inline constexpr uint8_t kAttributeTags = std::variant_size_v<AttributeValue> - 1;

struct Attribute {
  std::string_view key;
  AttributeValue value;
};

// An attribute by the numbers of its key and value in the dictionaries of its footer.
struct AttributePair {
  uint64_t key = 0;
  uint64_t value = 0;
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
  uint64_t statistics = 0;  // position; 0: none, as in all versions before 6
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
  // Throws CorruptFileError for a key or value that does not exist. Before version 6 such pairs are ignored: the
  // original copies them from older layers, to whose dictionaries they refer.
  std::vector<Attribute> attributes(const ArrayRecord& array) const;
  std::vector<AttributePair> attribute_pairs(const ArrayRecord& array) const;
  // The meaning of a pair in this footer; nullopt if it is out of range.
  std::optional<Attribute> find_attribute(AttributePair pair) const;
  // Throws CorruptFileError for a key or value that does not exist.
  Attribute attribute(AttributePair pair) const;
  bool has_attribute_keys() const { return attribute_keys_.count > 0; }
  // True if the pairs of an array cannot refer to all values: the original then stores wrong numbers.
  bool may_wrap(const ArrayRecord& array) const;

  uint32_t version() const { return version_; }
  Bytes archive() const { return archive_.bytes(); }

 private:
  bool is_6() const { return version_ == kFooterVersion6; }
  uint64_t array_at(uint64_t index) const;
  uint64_t pair_width(const ArrayRecord& array) const;
  std::string_view key_at(uint64_t index) const;
  template <typename T>
  T load_value(uint64_t at) const;
  template <size_t... N>
  AttributeValue load_tagged(uint64_t at, std::index_sequence<N...> tags) const;

  Archive archive_;
  uint32_t version_ = kFooterVersion;
  Run blocks_, arrays_, attribute_keys_, attribute_values_;  // version 6 keeps string values among the keys
};

// Limits on memory that stored bytes do not justify.
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{256} << 20;

// Size of one element in memory, for the shortest string or binary value.
inline uint64_t element_memory(Type type) {
  const uint64_t item = item_bytes(type);
  return item > 0 ? item : sizeof(std::string) + sizeof(void*);
}

// Memory of `n` elements, saturated on overflow.
inline uint64_t memory_of(uint64_t n, Type type) {
  constexpr uint64_t kFarTooMany = uint64_t{1} << 50;
  return std::min(kFarTooMany, std::min(kFarTooMany, n) * element_memory(type));
}

// `chosen`: the user's own limit. By default, sparse arrays may take 64 times the size of their files.
inline uint64_t max_unstored_bytes(uint64_t file_bytes, std::optional<uint64_t> chosen) {
  constexpr uint64_t kAlways = uint64_t{256} << 20, kFactor = 64;
  return chosen.value_or(std::max(kAlways, std::min(file_bytes, UINT64_MAX / kFactor) * kFactor));
}

[[noreturn]] inline void refuse_unstored(uint64_t bytes, uint64_t limit) {
  throw FieldError(cat("unwritten cells: expected at most ", limit, " bytes of memory for them, got ", bytes,
                       ": read a part (start=, shape=), or raise max_unstored_bytes="));
}

}  // namespace atompack::array_file
