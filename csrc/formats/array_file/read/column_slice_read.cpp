// Reading of the units of a slice.
#include <algorithm>
#include <tuple>

#include "formats/array_file/read/column_slice.h"
#include "formats/array_file/read/read_box.h"

namespace atompack::array_file {

uint64_t Slice::work(size_t number) const {
  const BlockTask& unit = units_[number];
  if (unit.block.codec == codec::Codec::none || find_cached(unit)) return unit.copied;
  return unit.block.decoded_bytes * static_cast<uint64_t>(codec::work_factor(unit.block.codec));
}

std::shared_ptr<const DecodedBytes> Slice::find_cached(const BlockTask& unit) const {
  const ColumnChunk& chunk = *chunk_refs_[unit.first].chunk;
  return cache_.find({column_->layers().layer(chunk.layer).serial(), chunk.block, kWholeBlock});
}

bool Slice::is_cached(const BlockTask& unit) const {
  if (unit.block.codec == codec::Codec::none) return false;
  return find_cached(unit) || (keeps_stretches(unit) && !find_stretches(unit).empty());
}

// Calls use(chunks, range of the block) for chunks of an uncompressed block that follow each other.
template <typename Use>
void Slice::for_each_run(const BlockTask& unit, const Use& use) const {
  for (size_t first = unit.first; first < unit.last;) {
    io::ByteRange run{chunk_refs_[first].chunk->offset, chunk_refs_[first].chunk->bytes};
    size_t last = first + 1;
    for (; last < unit.last && chunk_refs_[last].chunk->offset <= run.end(); ++last) {
      const ColumnChunk& chunk = *chunk_refs_[last].chunk;
      run.length = std::max(run.end(), uint64_t{chunk.offset} + chunk.bytes) - run.offset;
    }
    use(std::span(chunk_refs_).subspan(first, last - first), run);
    first = last;
  }
}

void Slice::add_ranges(const BlockTask& unit, std::vector<io::ByteRange>& ranges) const {
  const ChunkRef& chunk_ref = chunk_refs_[unit.first];
  const io::ByteRange block = layer_of(chunk_ref).place_of(chunk_ref.chunk->block);
  if (unit.block.codec != codec::Codec::none) return ranges.push_back(block);
  for_each_run(unit, [&](std::span<const ChunkRef>, const io::ByteRange& run) {
    ranges.push_back({block.offset + run.offset, run.length});
  });
}

// All ranges at once: each that is read without it would wait for the one before.
void Slice::announce() const {
  for (size_t i = 0; i < units_.size();) {
    const Layer& layer = layer_of(chunk_refs_[units_[i].first]);
    const bool is_of_use = layer.file().window() > 1;
    std::vector<io::ByteRange> ranges;
    for (; i < units_.size() && &layer_of(chunk_refs_[units_[i].first]) == &layer; ++i) {
      if (is_of_use && !is_cached(units_[i])) add_ranges(units_[i], ranges);
    }
    if (ranges.empty()) continue;
    layer.file().sample(ranges);
    if (layer.file().window() > 1) layer.file().announce(ranges);
  }
}

// The block with its stored bytes, which are valid until this thread loads another one.
BlockView Slice::load(const BlockTask& unit) const {
  if (unit.block.is_read) return unit.block;
  thread_local io::RangeBuffer buffer;
  const ChunkRef& chunk_ref = chunk_refs_[unit.first];
  return layer_of(chunk_ref).read_block(chunk_ref.chunk->block, buffer);
}

void Slice::read(size_t number, ColumnVisitor& visitor) const {
  const BlockTask& unit = units_[number];
  const ChunkRef& chunk_ref = chunk_refs_[unit.first];
  const Layer& layer = layer_of(chunk_ref);
  in_layer(layer, name_of(chunk_ref), [&] {
    if (unit.block.codec == codec::Codec::none) return read_plain(unit, visitor);
    if (const auto decoded = find_cached(unit)) {
      cache_.count(true);
      return deliver(unit, decoded->bytes(), visitor);
    }
    const bool keeps = keeps_stretches(unit);
    const bool is_read = keeps && read_stretches(unit, visitor);
    cache_.count(is_read);
    if (is_read) return;
    const bool fits = decoded_bytes_ <= cache_.limit() - cache_.limit() / 16;
    if (!fits && decode_in_place(unit, visitor)) return;
    if (!fits && is_mostly_wanted(unit)) {  // it is used up at once
      thread_local std::vector<std::byte> scratch;
      return deliver(unit, decode_block(load(unit), scratch), visitor);
    }
    if (keeps) return decode_stretches(unit, visitor);
    const BlockView block = load(unit);
    auto decoded = std::make_shared<DecodedBytes>(block.decoded_bytes);
    decode_block(block, decoded->writable());
    const std::tuple key(layer.serial(), chunk_ref.chunk->block, kWholeBlock);
    deliver(unit, cache_.keep(key, decoded, decoded->bytes().size())->bytes(), visitor);
  });
}

void Slice::read_plain(const BlockTask& unit, ColumnVisitor& visitor) const {
  if (unit.block.is_read) return deliver(unit, unit.block.stored, visitor);
  thread_local io::RangeBuffer buffer;
  const ChunkRef& first = chunk_refs_[unit.first];
  for_each_run(unit, [&](std::span<const ChunkRef> chunk_refs, const io::ByteRange& run) {
    const Bytes bytes = layer_of(first).read_plain(first.chunk->block, run.offset, run.length, buffer);
    deliver(chunk_refs, bytes, run.offset, visitor);
  });
}

// If only small parts of many blocks are needed, caching whole blocks would evict all of them.
bool Slice::keeps_stretches(const BlockTask& unit) const {
  constexpr uint64_t kWorthAnEntry = 4096;
  return partly_wanted_ > cache_.limit() / 4 && unit.wanted / (unit.last - unit.first) >= kWorthAnEntry;
}

// Empty unless all of them are cached.
Slice::CachedStretches Slice::find_stretches(const BlockTask& unit) const {
  const uint64_t serial = layer_of(chunk_refs_[unit.first]).serial();
  CachedStretches cached;
  for (const ChunkRef& chunk_ref : refs_of(unit)) {
    cached.push_back(cache_.find({serial, chunk_ref.chunk->block, chunk_ref.chunk->offset}));
    if (!cached.back() || cached.back()->bytes().size() != chunk_ref.chunk->bytes) return {};
  }
  return cached;
}

bool Slice::read_stretches(const BlockTask& unit, ColumnVisitor& visitor) const {
  const CachedStretches cached = find_stretches(unit);
  for (size_t i = 0; i < cached.size(); ++i) deliver(chunk_refs_[unit.first + i], cached[i]->bytes(), visitor);
  return !cached.empty();
}

void Slice::decode_stretches(const BlockTask& unit, ColumnVisitor& visitor) const {
  thread_local std::vector<std::byte> scratch;
  const uint64_t serial = layer_of(chunk_refs_[unit.first]).serial();
  const BlockView block = load(unit);
  if (scratch.size() < unit.end) scratch.resize(unit.end);
  const std::span front = std::span(scratch).first(unit.end);
  decode_front(block, front);
  deliver(unit, front, visitor);
  for (const ChunkRef& chunk_ref : refs_of(unit)) {
    auto stretch = std::make_shared<DecodedBytes>(chunk_ref.chunk->bytes);
    store(stretch->writable().data(), Bytes(front).subspan(chunk_ref.chunk->offset, chunk_ref.chunk->bytes));
    cache_.keep({serial, chunk_ref.chunk->block, chunk_ref.chunk->offset}, stretch, chunk_ref.chunk->bytes);
  }
}

// Decodes a whole block directly into the output if it goes unchanged into one range.
bool Slice::decode_in_place(const BlockTask& unit, ColumnVisitor& visitor) const {
  if (unit.wanted != unit.block.decoded_bytes) return false;
  std::byte* begin = nullptr;
  uint64_t offset = 0;
  for (const ChunkRef& chunk_ref : refs_of(unit)) {
    const Row& row = rows_[chunk_ref.row];
    if (chunk_ref.chunk->offset != offset || !row.is_whole || row.layout->n_cells != 1) return false;
    if (row.type.kind != ColumnKind::numeric) return false;
    std::byte* const at = visitor.place(chunk_ref.row, 0, row.layout->n_elements);
    if (at == nullptr || (offset > 0 && at != begin + offset)) return false;
    if (offset == 0) begin = at;
    offset += chunk_ref.chunk->bytes;
  }
  decode_block(load(unit), std::span(begin, unit.block.decoded_bytes));
  return true;
}

void Slice::deliver(const BlockTask& unit, Bytes block, ColumnVisitor& visitor) const {
  deliver(refs_of(unit), block, 0, visitor);
}

// `bytes` of the block begin at `offset`.
void Slice::deliver(std::span<const ChunkRef> chunk_refs, Bytes bytes, uint64_t offset, ColumnVisitor& visitor) const {
  for (const ChunkRef& chunk_ref : chunk_refs) {
    const Bytes chunk = bytes.subspan(chunk_ref.chunk->offset - offset, chunk_ref.chunk->bytes);
    in_layer(layer_of(chunk_ref), name_of(chunk_ref), [&] { deliver(chunk_ref, chunk, visitor); });
  }
}

void Slice::deliver(const ChunkRef& chunk_ref, Bytes chunk, ColumnVisitor& visitor) const {
  const Row& row = rows_[chunk_ref.row];
  const ColumnLayout& layout = *row.layout;
  const bool is_numeric = row.type.kind == ColumnKind::numeric;
  if (is_numeric && row.is_whole && layout.n_cells == 1) return visitor.values(chunk_ref.row, 0, chunk);
  const Box cell = layout.grid.box_of(layout.grid.cell_at(chunk_ref.chunk->cell)), slice = box_of(row);
  if (is_numeric) {
    const uint64_t item = item_bytes(layout.type);
    return for_each_common_run(cell, slice, [&](uint64_t from, uint64_t to, uint64_t n) {
      visitor.values(chunk_ref.row, to, chunk.subspan(from * item, n * item));
    });
  }
  for_each_common_string(chunk, cell, layout.type, slice,
                         [&](uint64_t element, Bytes text) { visitor.text(chunk_ref.row, element, text); });
}

}  // namespace atompack::array_file
