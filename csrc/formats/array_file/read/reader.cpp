#include "formats/array_file/read/reader.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error_context.h"
#include "formats/array_file/read/read_box.h"

namespace atompack::array_file {
namespace {

void add_file(Files& files, const io::Location& place, Reading reading) {
  auto file = io::open_file(place);
  const io::Access access = reading == Reading::by_pread ? io::Access::read : io::Access::automatic;
  files.sources.push_back(file->bytes(file->version().size, access));
  files.opened.push_back(std::move(file));
  files.places.push_back(place);
}

// Checked from the newest layer to the base.
bool are_in_place(const Files& files) {
  for (size_t i = files.size(); i-- > 0;) {
    const std::optional<io::FileVersion> now = io::version_of(files.places[i]);
    if (!now || !io::FileIdentity{now->device, now->inode, 0}.same_file(files.opened[i]->identity())) return false;
  }
  return true;
}

Files open_files(const std::vector<LayerFile>& layers, Reading reading, const std::function<void()>& check) {
  Files files;
  for (const LayerFile& layer : layers) add_file(files, layer.file, reading);
  if (check) {  // what it waits for and the footers are requested together
    if (layers.front().file.is_remote()) std::ranges::for_each(files.sources, [](auto& file) { announce_end(*file); });
    check();
  }
  return files;
}

void add_base(Files& files, const io::Location& base, Reading reading) {
  try {
    add_file(files, base, reading);
  } catch (const IoError& error) {
    if (error.code() == ENOENT) static_cast<void>(layer_files(base));  // names the folder if that does not exist
    throw;
  }
}

// Returns nullopt if the layers changed meanwhile. The order of the steps detects concurrent flushes (FORMAT.md,
// "Reading beside a writer"): base, list, sidecars, and then the same again in reverse order.
std::optional<Files> try_to_open_layers(const io::Location& base, Reading reading) {
  Files files;
  add_base(files, base, reading);
  const std::vector<LayerFile> layers = layer_files(base);
  try {
    for (const LayerFile& layer : layers) {
      if (layer.number > 0) add_file(files, layer.file, reading);
    }
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return std::nullopt;
  }
  // The first list may lack a layer and have a newer one, if both were published while it was made.
  std::vector<LayerFile> now = layer_files(base);
  std::erase_if(now, [&](const LayerFile& layer) { return layer.number > layers.back().number; });
  if (!std::ranges::equal(now, layers, {}, &LayerFile::path, &LayerFile::path)) return std::nullopt;
  return are_in_place(files) ? std::optional(std::move(files)) : std::nullopt;
}

Files open_layers(const io::Location& base, Reading reading) {
  constexpr int kMaxTries = 100;
  check_base_path(base.path());
  for (int i = 0; i < kMaxTries; ++i) {
    if (std::optional<Files> files = try_to_open_layers(base, reading)) return std::move(*files);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));  // removing thousands of sidecars takes seconds
  }
  throw IoError(EAGAIN, "the layers change faster than they can be opened", base.path());
}

std::vector<Layer> parse_layers(const Files& files, uint64_t max_metadata_bytes) {
  std::vector<Layer> layers;
  uint64_t n_bytes = 0;
  const auto check = [&](uint64_t footer_bytes, const std::string& path) {
    n_bytes += footer_bytes;
    if (n_bytes <= max_metadata_bytes) return;
    throw CorruptFileError(cat("footers: expected at most max_metadata_bytes=", max_metadata_bytes, ", got ", n_bytes))
        .in_file(path);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& file = files.sources[i];
    io::RangeBuffer end;
    check(in_file(file->path(), [&] { return read_footer_bytes(*file, end); }), file->path());
    const bool is_local = !files.places[i].is_remote();
    layers.emplace_back(file, std::move(end), is_local ? std::optional(files.opened[i]->version()) : std::nullopt);
  }
  return layers;
}

}  // namespace

Reader::Reader(const io::Location& base, uint64_t max_metadata_bytes, Reading reading,
               std::shared_ptr<BlockCache> cache)
    : files_(open_layers(base, reading)), layers_(parse_layers(files_, max_metadata_bytes)), cache_(std::move(cache)) {}

Reader::Reader(const std::vector<LayerFile>& layers, uint64_t max_metadata_bytes, Reading reading,
               const std::function<void()>& check)
    : files_(open_files(layers, reading, check)), layers_(parse_layers(files_, max_metadata_bytes)) {}

std::vector<io::FileVersion> Reader::versions() const {
  std::vector<io::FileVersion> versions;
  for (const auto& file : files_.opened) versions.push_back(file->version());
  return versions;
}

void Reader::check_unstored(const Array& array, const Box& box, std::optional<uint64_t> chosen) const {
  in_file(layers_.layer(0).path(), [&] { array_file::check_unstored(layers_, array, box, chosen); });
}

void Reader::read(const Array& array, const Box& box, std::span<std::byte> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_numbers(layers_, array, box, out, last);
}

void Reader::read(const Array& array, const Box& box, std::span<std::string> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_strings(layers_, array, box, out, last);
}

Bytes Reader::read_chunk(const StoredChunk& chunk, DecodedBlock& last) const {
  files_.sources[chunk.layer]->check_not_shrunk();
  return layers_.layer(chunk.layer).read(chunk.chunk, last);
}

// A flush removes old statistics before it publishes its sidecar, and publishes new ones after it.
Statistics Reader::statistics() const {
  const io::Location& base = files_.places.front();
  Statistics found = read_statistics(base);
  const std::vector<LayerFile> now = layer_files(base);
  const bool same = std::ranges::equal(now, files_.places, {}, &LayerFile::path, &io::Location::path);
  if (same && are_in_place(files_)) return found;
  if (base.is_remote()) {
    throw IoError(ESTALE, "the file was written to since it was opened; refresh() opens its last flush", base.path());
  }
  throw FieldError("statistics: the file was written to since it was opened: open it again").in_file(base.path());
}

void Reader::check_not_shrunk() const {
  for (const auto& source : files_.sources) source->check_not_shrunk();
}

}  // namespace atompack::array_file
