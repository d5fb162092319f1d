#include "array_format/reader.h"

#include "array_format/reading.h"

namespace atompack::array_format {
namespace {

using Files = std::vector<std::unique_ptr<const io::MappedFile>>;

Files map_layers(const std::vector<LayerFile>& layers) {
  Files files;
  for (const LayerFile& layer : layers) {
    io::UniqueFd fd = io::open_for_reading(layer.path);
    const uint64_t bytes = io::identify(fd.get(), layer.path).size;
    files.push_back(
        std::make_unique<const io::MappedFile>(std::move(fd), bytes, layer.path, io::Access::automatic, false));
  }
  return files;
}

std::vector<Layer> parse_layers(const Files& files) {
  std::vector<Layer> layers;
  for (const auto& file : files) layers.emplace_back(file->bytes(), file->path());
  return layers;
}

}  // namespace

Reader::Reader(const std::string& path) : Reader(layer_files(path)) {}

Reader::Reader(const std::vector<LayerFile>& layers) : files_(map_layers(layers)), layers_(parse_layers(files_)) {}

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
