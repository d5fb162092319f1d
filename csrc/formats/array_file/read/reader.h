// Reader of an array file: STEM.af with its sidecars STEM.1.af, STEM.2.af and so on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "formats/array_file/layer/footer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/layer/strings.h"
#include "formats/array_file/read/statistics.h"
#include "io/open_file.h"

namespace atompack::array_file {

// Reading of the elements of a box from an array's chunks.

// Fills `out` with the elements of `box` in row-major order, as stored: little-endian numbers, timestamps as int64
// nanoseconds. Decodes only blocks that hold some of them. Throws FieldError if the box is out of range or `out` has
// a different length, CorruptFileError, and UnsupportedFormatError for types without a known encoding.
void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last);

// The same for strings and binary values. Invalid UTF-8 in strings is replaced by U+FFFD.
void read_strings(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                  DecodedBlock& last);

// Throws FieldError if the elements of `box`, which must be in range, take more memory than their blocks justify: see
// max_unstored_bytes(). Call it before allocating the memory.
void check_unstored(const Layers& layers, const Array& array, const Box& box, std::optional<uint64_t> chosen);
// Decoded size of the blocks that hold elements of `box`.
uint64_t decoded_bytes_for(const Layers& layers, const Array& array, const Box& box);

// Throws FieldError if a box is outside of an array of this shape.
void check_box(const std::vector<uint64_t>& shape, const Box& box);
// For arrays with cells without a chunk: throws CorruptFileError unless these hold the fill value.
void check_cells_are_known(const Layers& layers, std::optional<uint32_t> foreign_layer);
// Throws CorruptFileError.
void check_chunk_bytes(uint64_t expected, uint64_t got);

// Fills `out` with copies of the item.
void repeat(Bytes item, std::span<std::byte> out);

// Copies the elements that a chunk, which holds those of `from`, shares with the box of `out`.
void copy_numbers(Bytes chunk, const Box& from, uint64_t item_bytes, const Box& box, std::span<std::byte> out);
void copy_strings(Bytes chunk, const Box& from, Type type, const Box& box, std::span<std::string> out);
// Calls use(element of the box, string) for each of them.
template <typename Use>
void for_each_common_string(Bytes chunk, const Box& from, Type type, const Box& box, const Use& use) {
  const Strings strings(chunk, from.n_elements());
  for_each_common_run(from, box, [&](uint64_t source, uint64_t target, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const Bytes text = strings.at(source + i);
      const bool is_readable = type != Type::string || is_utf8(text);
      is_readable ? use(target + i, text) : use(target + i, as_bytes(well_formed(text)));
    }
  });
}

// Access to local files. by_pread: block by block, so that truncation of the file cannot end the process.
enum class Reading : uint8_t { mapped, by_pread };

// The layers of one array file, oldest first, all mapped or none.
struct Files {
  std::vector<io::Location> places;
  std::vector<std::shared_ptr<const io::OpenFile>> opened;
  std::vector<std::shared_ptr<const io::ByteSource>> sources;
  size_t size() const { return opened.size(); }
};

// Reads the footers. CorruptFileError if they exceed `max_metadata_bytes` together.
std::vector<Layer> read_layers(const Files& files, uint64_t max_metadata_bytes);

// Sees the layers that exist at construction. Const methods are thread-safe.
class Reader {
 public:
  // The path of the base ends in .af. Throws IoError, CorruptFileError (also if the footers of all layers
  // exceed `max_metadata_bytes`), UnsupportedFormatError.
  explicit Reader(const io::Location& base, uint64_t max_metadata_bytes = kMaxMetadataBytes,
                  Reading reading = Reading::mapped, std::shared_ptr<BlockCache> cache = nullptr);
  // Reads only these layers, oldest first, including the base. `check` is called when all of them are open and before
  // they are read; the caller must detect concurrent compaction.
  explicit Reader(const std::vector<LayerFile>& layers, uint64_t max_metadata_bytes = kMaxMetadataBytes,
                  Reading reading = Reading::mapped, const std::function<void()>& check = nullptr);

  // Layers that were read already, with the sources to check for truncation before each read.
  Reader(Files files, Layers layers);

  std::vector<std::string> names() const { return layers_.names(); }
  bool contains(std::string_view name) const { return layers_.contains(name); }
  Array array(std::string_view name) const { return layers_.array(name); }
  size_t n_layers() const { return layers_.n_layers(); }
  const Layers& layers() const { return layers_; }
  // Versions of the layers, oldest first.
  std::vector<io::FileVersion> versions() const;

  // Like check_unstored() above.
  void check_unstored(const Array& array, const Box& box, std::optional<uint64_t> chosen) const;
  // Like read_numbers and read_texts; also throw CorruptFileError if a file was truncated since.
  void read(const Array& array, const Box& box, std::span<std::byte> out, DecodedBlock& last) const;
  void read(const Array& array, const Box& box, std::span<std::string> out, DecodedBlock& last) const;
  // A chunk of an array as stored. Valid until `last` is used again.
  Bytes read_chunk(const StoredChunk& chunk, DecodedBlock& last) const;
  // For one thread that reads, with the cache given to the constructor.
  DecodedBlock decoded_block() const { return DecodedBlock(cache_); }

  // Contents of STEM.stats, for a reader made from a base. FieldError if the file was written to since, or IoError
  // (ESTALE) if it is remote.
  Statistics statistics() const;

  // Throws CorruptFileError if a file was truncated since.
  void check_not_shrunk() const;

 private:
  Files files_;
  Layers layers_;
  std::shared_ptr<BlockCache> cache_;
};

// Verification: reads everything of an array to find damage.

// Decodes and checks every chunk of an array, in memory that does not grow with the array. Throws FieldError if there
// is no such array, CorruptFileError and UnsupportedFormatError for errors that reading it would report.
void verify_array(const Reader& reader, std::string_view name, DecodedBlock& last);

// Reads the arrays of one file with pread: truncation in the meantime is an error, not a signal.
class Verification {
 public:
  Verification(const io::Location& base, uint64_t max_metadata_bytes)
      : reader_(base, max_metadata_bytes, Reading::by_pread) {}

  std::vector<std::string> names() const { return reader_.names(); }
  void check(std::string_view name) { verify_array(reader_, name, last_); }

 private:
  Reader reader_;
  DecodedBlock last_;
};

}  // namespace atompack::array_file
