#include "formats/array_file/read/reader.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/column.h"

namespace atompack::array_file {
namespace {

// A chunk, and the elements that it holds.
struct ChunkRef {
  const StoredChunk* stored = nullptr;
  Box box;
};

// The chunks that a box needs, grouped by block.
struct BoxChunks {
  std::vector<ChunkRef> chunk_refs;
  bool complete = true;  // each cell has a chunk
};

void check_length(uint64_t expected, uint64_t got) {
  if (expected != got) throw FieldError(cat("elements read: expected ", expected, ", got room for ", got));
}

BoxChunks find_chunks(const Array& array, const Box& box) {
  BoxChunks found;
  if (array.chunks.empty()) return {{}, false};
  const Grid grid = array.grid();
  const std::optional<Box> cells = grid.cells_meeting(box);
  if (!cells) return {{}, false};
  for_each_chunk_in(grid, *cells, std::span(array.chunks), [&](const StoredChunk& stored) {
    found.chunk_refs.push_back({&stored, grid.box_of(grid.cell_at(stored.cell))});
  });
  found.complete = found.chunk_refs.size() == cells->n_elements();
  std::ranges::sort(found.chunk_refs, {}, [](const ChunkRef& chunk_ref) {
    return std::tuple(chunk_ref.stored->layer, chunk_ref.stored->chunk.block, chunk_ref.stored->chunk.offset);
  });
  return found;
}

// All ranges together, where each would be waited for after the one before.
void announce_chunks(const Layers& layers, const std::vector<ChunkRef>& chunk_refs, const DecodedBlock& last) {
  for (size_t i = 0; i < chunk_refs.size();) {
    const uint32_t number = chunk_refs[i].stored->layer;
    const Layer& layer = layers.layer(number);
    const bool is_of_use = layer.file().window() > 1;
    std::vector<io::ByteRange> ranges;
    for (; i < chunk_refs.size() && chunk_refs[i].stored->layer == number; ++i) {
      const ChunkRecord& chunk = chunk_refs[i].stored->chunk;
      if (!is_of_use || layer.is_held(chunk.block, last)) continue;
      const io::ByteRange range = layer.range_of(chunk);
      if (ranges.empty() || range.offset != ranges.back().offset) ranges.push_back(range);
    }
    if (ranges.size() > 1) layer.file().announce(ranges);
  }
}

// Reads the chunks of a checked box. Calls use(chunk, its bytes).
template <typename Use>
void read_chunks(const Layers& layers, const BoxChunks& chunk_refs, DecodedBlock& last, const Use& use) {
  announce_chunks(layers, chunk_refs.chunk_refs, last);
  for (const ChunkRef& chunk_ref : chunk_refs.chunk_refs) {
    const Layer& layer = layers.layer(chunk_ref.stored->layer);
    const Bytes bytes = layer.read(chunk_ref.stored->chunk, last);
    in_file(layer.path(), [&] { use(chunk_ref, bytes); });
  }
}

}  // namespace

uint64_t decoded_bytes_for(const Layers& layers, const Array& array, const Box& box) {
  uint64_t bytes = 0;
  const StoredChunk* last = nullptr;
  for (const ChunkRef& chunk_ref : find_chunks(array, box).chunk_refs) {  // grouped by block
    const StoredChunk& chunk = *chunk_ref.stored;
    const bool is_counted = last != nullptr && last->layer == chunk.layer && last->chunk.block == chunk.chunk.block;
    if (!is_counted) bytes += layers.layer(chunk.layer).decoded_bytes(chunk.chunk.block);
    last = &chunk;
  }
  return bytes;
}

void check_unstored(const Layers& layers, const Array& array, const Box& box, std::optional<uint64_t> chosen) {
  at_field(array.name, [&] {
    check_box(array.shape, box);
    const uint64_t limit = max_unstored_bytes(layers.file_bytes(), chosen);
    const uint64_t wanted = memory_of(box.n_elements(), array.type);
    if (wanted <= limit) return;
    const uint64_t stored = decoded_bytes_for(layers, array, box);
    if (wanted > stored && wanted - stored > limit) refuse_unstored(wanted - stored, limit);
  });
}

void check_box(const std::vector<uint64_t>& shape, const Box& box) {
  if (box.start.size() != shape.size() || box.count.size() != shape.size()) {
    throw FieldError(
        cat("axes of the slice: expected ", shape.size(), ", got ", box.start.size(), " and ", box.count.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.start[i] <= shape[i] && box.count[i] <= shape[i] - box.start[i]) continue;
    throw FieldError(cat("slice of axis ", i, ": expected at most ", shape[i], " elements, got start ", box.start[i],
                         " and count ", box.count[i]));
  }
}

void check_cells_are_known(const Layers& layers, std::optional<uint32_t> foreign_layer) {
  if (!foreign_layer) return;
  throw CorruptFileError(
      "cells without a chunk: expected the fill value, got older chunks of another type, shape or chunk shape")
      .in_file(layers.layer(*foreign_layer).path());
}

void check_chunk_bytes(uint64_t expected, uint64_t got) {
  if (got != expected) throw_corrupt("chunk bytes: expected ", expected, ", got ", got);
}

void repeat(Bytes item, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += item.size()) store(out.data() + at, item);
}

void copy_numbers(Bytes chunk, const Box& from, uint64_t item_bytes, const Box& box, std::span<std::byte> out) {
  check_chunk_bytes(from.n_elements() * item_bytes, chunk.size());
  for_each_common_run(from, box, [&](uint64_t source, uint64_t target, uint64_t n) {
    store(out.data() + target * item_bytes, chunk.subspan(source * item_bytes, n * item_bytes));
  });
}

void copy_strings(Bytes chunk, const Box& from, Type type, const Box& box, std::span<std::string> out) {
  for_each_common_string(chunk, from, type, box, [&](uint64_t element, Bytes text) { out[element] = as_text(text); });
}

void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last) {
  at_field(array.name, [&] {
    const uint64_t item = item_bytes(array.type);
    if (item == 0 || array.type == Type::boolean) {
      throw UnsupportedFormatError(cat("type: expected numbers or timestamps, got ", name_of(array.type)));
    }
    check_box(array.shape, box);
    // no overflow, since the size of the whole array does not overflow
    check_length(box.n_elements() * item, out.size());
    if (out.empty()) return;
    const BoxChunks chunk_refs = find_chunks(array, box);
    if (!chunk_refs.complete) check_cells_are_known(layers, array.foreign_layer);
    const std::array<std::byte, 8> fill = fill_item(array.type, array.fill);
    if (!chunk_refs.complete) repeat(Bytes(fill).first(item), out);
    read_chunks(layers, chunk_refs, last,
                [&](const ChunkRef& chunk_ref, Bytes bytes) { copy_numbers(bytes, chunk_ref.box, item, box, out); });
  });
}

void read_strings(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                  DecodedBlock& last) {
  at_field(array.name, [&] {
    if (array.type != Type::string && array.type != Type::binary) {
      throw UnsupportedFormatError(cat("type: expected strings or binary, got ", name_of(array.type)));
    }
    check_box(array.shape, box);
    check_length(box.n_elements(), out.size());
    if (out.empty()) return;
    const BoxChunks chunk_refs = find_chunks(array, box);
    if (!chunk_refs.complete) check_cells_are_known(layers, array.foreign_layer);
    for (std::string& text : out) text.clear();  // fill values do not apply to strings
    read_chunks(layers, chunk_refs, last, [&](const ChunkRef& chunk_ref, Bytes bytes) {
      copy_strings(bytes, chunk_ref.box, array.type, box, out);
    });
  });
}

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

// Returns nullopt if the layers changed in the meantime. The order of the steps detects concurrent flushes (FORMAT.md,
// "Reading next to a writer"): base, list, sidecars, and then the same again in reverse order.
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

}  // namespace

std::vector<Layer> read_layers(const Files& files, uint64_t max_metadata_bytes) {
  std::vector<Layer> layers;
  uint64_t n_bytes = 0;
  const auto check = [&](uint64_t footer_bytes, const std::string& path) {
    n_bytes += footer_bytes;
    if (n_bytes <= max_metadata_bytes) return;
    throw CorruptFileError(cat("footers: expected at most max_metadata_bytes=", max_metadata_bytes, ", got ", n_bytes))
        .in_file(path);
  };
  for (size_t i = 0; i < files.sources.size(); ++i) {
    const auto& file = files.sources[i];
    io::RangeBuffer end;
    check(in_file(file->path(), [&] { return read_footer_bytes(*file, end); }), file->path());
    const bool is_local = i < files.places.size() && !files.places[i].is_remote();
    layers.emplace_back(file, std::move(end), is_local ? std::optional(files.opened[i]->version()) : std::nullopt);
  }
  return layers;
}

Reader::Reader(const io::Location& base, uint64_t max_metadata_bytes, Reading reading,
               std::shared_ptr<BlockCache> cache)
    : files_(open_layers(base, reading)), layers_(read_layers(files_, max_metadata_bytes)), cache_(std::move(cache)) {}

Reader::Reader(const std::vector<LayerFile>& layers, uint64_t max_metadata_bytes, Reading reading,
               const std::function<void()>& check)
    : files_(open_files(layers, reading, check)), layers_(read_layers(files_, max_metadata_bytes)) {}

Reader::Reader(Files files, Layers layers) : files_(std::move(files)), layers_(std::move(layers)) {}

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
  const Layer& layer = layers_.layer(chunk.layer);
  layer.file().check_not_shrunk();
  return layer.read(chunk.chunk, last);
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

namespace {

void check_chunk(const Array& array, Bytes chunk, uint64_t n_elements) {
  const uint64_t item = item_bytes(array.type);
  if (item > 0) return check_chunk_bytes(n_elements * item, chunk.size());
  static_cast<void>(Strings(chunk, n_elements));
}

}  // namespace

void verify_array(const Reader& reader, std::string_view name, DecodedBlock& last) {
  const Array array = reader.array(name);
  in_array(reader.layers().layer(0).path(), name, [&] {
    static_cast<void>(column_type(array.type));
    if (array.n_elements() == 0) return;
    const bool is_complete = !array.chunks.empty() && array.chunks.size() == array.grid().n_cells();
    if (!is_complete) check_cells_are_known(reader.layers(), array.foreign_layer);
    for (const StoredChunk& chunk : array.chunks) {
      const Bytes bytes = reader.read_chunk(chunk, last);
      in_file(reader.layers().layer(chunk.layer).path(), [&] {
        const Grid grid = array.grid();
        check_chunk(array, bytes, grid.box_of(grid.cell_at(chunk.cell)).n_elements());
      });
    }
  });
}

}  // namespace atompack::array_file
