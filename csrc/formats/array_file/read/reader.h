// An array file: STEM.af with its sidecars STEM.1.af, STEM.2.af and so on.
#pragma once

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
#include "io/mapped_file.h"
#include "io/piece_reader.h"

namespace atompack::array_file {

// by_pieces: by pread, block by block, so that a file that is cut meanwhile cannot end the process; for one thread, and
// without the slices of a Column.
enum class Reading : uint8_t { mapped, by_pieces };

struct OpenedFile {
  std::string path;
  io::FileIdentity identity;
};

// The layers of one array file, oldest first, all mapped or all read by pieces.
struct Files {
  std::vector<OpenedFile> opened;
  std::vector<std::unique_ptr<const io::MappedFile>> mapped;
  std::vector<std::unique_ptr<const io::PieceReader>> pieces;
  size_t size() const { return opened.size(); }
};

// Sees the layers that exist when it is made. Const methods are thread-safe.
class Reader {
 public:
  // `path` is that of the base, and ends in .af. Throws IoError, CorruptFileError (also where the footers of all layers
  // have more than `max_metadata_bytes`), UnsupportedFormatError.
  explicit Reader(const std::string& path, uint64_t max_metadata_bytes = kMaxMetadataBytes,
                  Reading reading = Reading::mapped);
  // Of these layers alone, oldest first, the base too. What a compaction does meanwhile is the caller's to notice.
  explicit Reader(const std::vector<LayerFile>& layers, uint64_t max_metadata_bytes = kMaxMetadataBytes,
                  Reading reading = Reading::mapped);

  std::vector<std::string> names() const { return layers_.names(); }
  bool contains(std::string_view name) const { return layers_.contains(name); }
  Array array(std::string_view name) const { return layers_.array(name); }
  size_t n_layers() const { return files_.size(); }
  const Layers& layers() const { return layers_; }

  // As check_unstored() of reading.h.
  void check_unstored(const Array& array, const Box& box, std::optional<uint64_t> chosen) const;
  // As read_numbers and read_texts; also throw CorruptFileError where a file was cut since.
  void read(const Array& array, const Box& box, std::span<std::byte> out, DecodedBlock& last) const;
  void read(const Array& array, const Box& box, std::span<std::string> out, DecodedBlock& last) const;
  // A chunk of an array as it is stored. Valid until `last` is used again.
  Bytes read_chunk(const StoredChunk& chunk, DecodedBlock& last) const;

  // STEM.stats as read_statistics(), for a reader made from a path. FieldError if the file was written to since.
  Statistics statistics() const;

  // Throws CorruptFileError where a file was cut since.
  void check_not_shrunk() const;

 private:
  Files files_;
  Layers layers_;
};

}  // namespace atompack::array_file
