#include "array_format/reader.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <ranges>
#include <thread>

#include "array_format/reading.h"

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

bool is_in_place(const io::MappedFile& file) {
  const std::optional<io::FileVersion> now = io::version_of(file.path());
  return now && io::FileIdentity{now->device, now->inode, 0}.same_file(file.identity());
}

// Nothing if the layers changed meanwhile. The order of the steps is what keeps flushes apart (FORMAT.md, "Reading
// beside a writer"): base, list, sidecars, and then the same again from the inside out.
std::optional<Files> try_to_map_layers(const std::string& path) {
  Files files;
  files.push_back(map_file(io::open_for_reading(path), path));
  const std::vector<LayerFile> layers = layer_files(path);
  try {
    for (const LayerFile& layer : layers) {
      if (layer.number > 0) files.push_back(map_file(io::open_for_reading(layer.path), layer.path));
    }
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return std::nullopt;
  }
  // The first list may have missed a layer and have a newer one, where both were published while it was made.
  std::vector<LayerFile> now = layer_files(path);
  std::erase_if(now, [&](const LayerFile& layer) { return layer.number > layers.back().number; });
  if (!std::ranges::equal(now, layers, {}, &LayerFile::path, &LayerFile::path)) return std::nullopt;
  const auto in_place = [](const auto& file) { return is_in_place(*file); };
  return std::ranges::all_of(files | std::views::reverse, in_place) ? std::optional(std::move(files)) : std::nullopt;
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

std::vector<Layer> parse_layers(const Files& files) {
  std::vector<Layer> layers;
  for (const auto& file : files) layers.emplace_back(file->bytes(), file->path());
  return layers;
}

}  // namespace

Reader::Reader(const std::string& path) : files_(map_layers(path)), layers_(parse_layers(files_)) {}

Reader::Reader(const std::vector<LayerFile>& layers) : files_(map_files(layers)), layers_(parse_layers(files_)) {}

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

// A flush publishes its sidecar before its statistics, and removes the older ones before that.
Statistics Reader::statistics() const {
  const std::string& base = files_.front()->path();
  Statistics found = read_statistics(base);
  const std::vector<LayerFile> now = layer_files(base);
  const bool same =
      std::ranges::equal(now, files_, {}, &LayerFile::path, [](const auto& file) { return file->path(); });
  const auto in_place = [](const auto& file) { return is_in_place(*file); };
  if (same && std::ranges::all_of(files_ | std::views::reverse, in_place)) return found;
  throw FieldError(
      "statistics: expected the layers as they were opened, got a file that was written to since: open it again")
      .in_file(base);
}

void Reader::check_not_shrunk() const {
  for (const auto& file : files_) file->check_not_shrunk();
}

}  // namespace atompack::array_format
