// Reader of an array file: STEM.af with its sidecars STEM.1.af, STEM.2.af and so on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/array_file/layer/layer_files.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/layer/limits.h"
#include "formats/array_file/read/statistics.h"
#include "io/open_file.h"

namespace atompack::array_file {

// Access to local files. by_pread: block by block, so that truncation of the file cannot end the process.
enum class Reading : uint8_t { mapped, by_pread };

// The layers of one array file, oldest first, all mapped or none.
struct Files {
  std::vector<io::Location> places;
  std::vector<std::shared_ptr<const io::OpenFile>> opened;
  std::vector<std::shared_ptr<const io::ByteSource>> sources;
  size_t size() const { return opened.size(); }
};

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

  std::vector<std::string> names() const { return layers_.names(); }
  bool contains(std::string_view name) const { return layers_.contains(name); }
  Array array(std::string_view name) const { return layers_.array(name); }
  size_t n_layers() const { return files_.size(); }
  const Layers& layers() const { return layers_; }
  // Of the layers, oldest first.
  std::vector<io::FileVersion> versions() const;

  // Like check_unstored() of read_box.h.
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

}  // namespace atompack::array_file
