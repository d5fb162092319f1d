#include "array_format/reader.h"

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "array_format/reading.h"
#include "array_format/trailer.h"
#include "base/in_file.h"

namespace atompack::array_format {
namespace {

using Files = std::vector<std::unique_ptr<const io::MappedFile>>;

std::unique_ptr<const io::MappedFile> map_file(io::UniqueFd fd, const std::string& path) {
  const uint64_t bytes = io::identify(fd.get(), path).size;
  return std::make_unique<const io::MappedFile>(std::move(fd), bytes, path, io::Access::automatic, false);
}

Files map_files(const std::vector<LayerFile>& layers) {
  Files files;
  for (const LayerFile& layer : layers) files.push_back(map_file(io::open_for_reading(layer.path), layer.path));
  return files;
}

// Nothing if a compaction came between: it replaces the base, and then removes sidecars.
std::optional<Files> try_to_map_layers(const std::string& path) {
  Files files;
  io::UniqueFd base = io::open_for_reading(path);
  const io::FileIdentity opened = io::identify(base.get(), path);
  files.push_back(map_file(std::move(base), path));
  try {
    for (const LayerFile& layer : layer_files(path)) {
      if (layer.number > 0) files.push_back(map_file(io::open_for_reading(layer.path), layer.path));
    }
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return std::nullopt;
  }
  const bool same_base = io::identify(io::open_for_reading(path).get(), path).same_file(opened);
  return same_base ? std::optional(std::move(files)) : std::nullopt;
}

Files map_layers(const std::string& path) {
  constexpr int kMostTries = 100;
  static_cast<void>(layer_files(path));  // refuses other paths
  for (int i = 0; i < kMostTries; ++i) {
    if (std::optional<Files> files = try_to_map_layers(path)) return std::move(*files);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));  // thousands of sidecars take seconds to remove
  }
  throw IoError(EAGAIN, "the layers change faster than they can be opened", path);
}

std::vector<Layer> parse_layers(const Files& files, uint64_t max_metadata_bytes) {
  std::vector<Layer> layers;
  uint64_t footer_bytes = 0;
  for (const auto& file : files) {
    footer_bytes += in_file(file->path(), [&] { return split_file(file->bytes(), kLayerMagic).archive.size(); });
    if (footer_bytes > max_metadata_bytes) {
      throw CorruptFileError(cat("footers: expected at most max_metadata_bytes=", max_metadata_bytes, ", got ",
                                 footer_bytes))
          .in_file(file->path());
    }
    layers.emplace_back(file->bytes(), file->path());
  }
  return layers;
}

}  // namespace

Reader::Reader(const std::string& path, uint64_t max_metadata_bytes)
    : files_(map_layers(path)), layers_(parse_layers(files_, max_metadata_bytes)) {}

Reader::Reader(const std::vector<LayerFile>& layers, uint64_t max_metadata_bytes)
    : files_(map_files(layers)), layers_(parse_layers(files_, max_metadata_bytes)) {}

void Reader::check_unstored(const Array& array, const Box& box, std::optional<uint64_t> chosen) const {
  in_file(layers_.layer(0).path(), [&] { array_format::check_unstored(layers_, array, box, chosen); });
}

void Reader::read(const Array& array, const Box& box, std::span<std::byte> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_numbers(layers_, array, box, out, last);
}

void Reader::read(const Array& array, const Box& box, std::span<std::string> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_texts(layers_, array, box, out, last);
}

Bytes Reader::read_chunk(const StoredChunk& chunk, DecodedBlock& last) const {
  files_[chunk.layer]->check_not_shrunk();
  return layers_.layer(chunk.layer).read(chunk.chunk, last);
}

void Reader::check_not_shrunk() const {
  for (const auto& file : files_) file->check_not_shrunk();
}

}  // namespace atompack::array_format
