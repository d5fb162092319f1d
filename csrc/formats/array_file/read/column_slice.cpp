#include "formats/array_file/read/column_slice.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/reader.h"

namespace atompack::array_file {
namespace {

// Bytes of an uncompressed block that one task copies.
constexpr uint64_t kStretch = uint64_t{512} << 10;

uint64_t block_key(const ColumnChunk& chunk) { return uint64_t{chunk.layer} << 32 | chunk.block; }

uint64_t product(std::span<const uint64_t> counts) {
  uint64_t n = 1;
  for (const uint64_t count : counts) n *= count;
  return n;
}

}  // namespace

Slice::Slice(std::shared_ptr<const Column> column, std::span<const int64_t> rows, const SliceRequest& request,
             BlockCache& cache)
    : column_(std::move(column)), cache_(cache) {
  rows_.reserve(rows.size());
  chunk_refs_.reserve(rows.size());
  for (const int64_t number : rows) add_row(static_cast<uint64_t>(number), request);
  group_chunk_refs();
  check_unwritten();
  check_unstored(request.max_unstored_bytes);
}

void Slice::add_row(uint64_t number, const SliceRequest& request) {
  Row& row = rows_.emplace_back();
  row.number = number;
  if (!column_->contains(number)) return;
  in_array(column_->layers().layer(0).path(), column_->name(number), [&] {
    row.layout = &column_->layout(number);
    row.type = column_type(row.layout->type);
    add_axes(row, request);
    add_chunk_refs(row);
  });
}

void Slice::add_axes(Row& row, const SliceRequest& request) {
  const std::vector<uint64_t>& shape = row.layout->shape;
  const auto check = [&](const std::optional<std::vector<uint64_t>>& given) {
    if (!given || given->size() == shape.size()) return;
    throw FieldError(cat("axes of the slice: expected ", shape.size(), ", got ", given->size()));
  };
  check(request.start);
  check(request.count);
  row.first_axis = axes_.size();
  row.is_whole = true;
  for (size_t i = 0; i < shape.size(); ++i)
    axes_.push_back(request.start ? std::min((*request.start)[i], shape[i]) : 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    const uint64_t rest = shape[i] - axes_[row.first_axis + i];
    axes_.push_back(request.count ? std::min((*request.count)[i], rest) : rest);
    row.is_whole = row.is_whole && axes_.back() == shape[i];
  }
}

void Slice::add_chunk_refs(Row& row) {
  const ColumnLayout& layout = *row.layout;
  row.n_elements = product(count_of(row));
  row.is_complete = row.n_elements == 0;
  const std::span<const ColumnChunk> chunks = column_->chunks(row.number);
  if (row.is_complete || chunks.empty()) return;
  const uint64_t number = rows_.size() - 1;
  uint64_t n_cells = layout.n_cells;
  const size_t before = chunk_refs_.size();
  if (row.is_whole) {
    for (const ColumnChunk& chunk : chunks) chunk_refs_.push_back({block_key(chunk), number, &chunk});
  } else {
    const std::optional<Box> cells = layout.grid.cells_meeting(box_of(row));
    if (!cells) return;
    n_cells = cells->n_elements();
    for_each_chunk_in(layout.grid, *cells, chunks,
                      [&](const ColumnChunk& chunk) { chunk_refs_.push_back({block_key(chunk), number, &chunk}); });
  }
  row.is_complete = chunk_refs_.size() - before == n_cells;
}

// Groups chunks by block, in the order of their offsets.
void Slice::group_chunk_refs() {
  const auto place = [](const ChunkRef& chunk_ref) {
    return std::tuple(chunk_ref.block, chunk_ref.chunk->offset, chunk_ref.row);
  };
  if (!std::ranges::is_sorted(chunk_refs_, {}, place)) std::ranges::sort(chunk_refs_, {}, place);
  sample_layers();
  for (size_t first = 0; first < chunk_refs_.size();) {
    const ChunkRef& chunk_ref = chunk_refs_[first];
    const Layer& layer = layer_of(chunk_ref);
    BlockTask unit{first, first,
                   in_array(layer.path(), name_of(chunk_ref), [&] { return layer.block(chunk_ref.chunk->block); })};
    const bool is_plain = unit.block.codec == codec::Codec::none;
    for (; unit.last < chunk_refs_.size() && chunk_refs_[unit.last].block == chunk_ref.block; ++unit.last) {
      if (is_plain && unit.wanted >= kStretch) break;
      check_chunk_ref(unit, chunk_refs_[unit.last]);
      const Row& row = rows_[chunk_refs_[unit.last].row];
      const uint64_t bytes = chunk_refs_[unit.last].chunk->bytes;
      unit.wanted += bytes;
      const uint64_t item = item_bytes(row.layout->type);
      unit.copied += row.is_whole || item == 0 ? bytes : std::min(bytes, row.n_elements * item);
      unit.end =
          std::max(unit.end, uint64_t{chunk_refs_[unit.last].chunk->offset} + chunk_refs_[unit.last].chunk->bytes);
    }
    if (!is_plain) decoded_bytes_ += unit.block.decoded_bytes;
    if (!is_plain && !is_mostly_wanted(unit)) partly_wanted_ += unit.block.decoded_bytes;
    first = unit.last;
    units_.push_back(unit);
  }
  check_claims();
}

// Before a block is looked at, which would wait for it if it is not in memory.
void Slice::sample_layers() const {
  constexpr size_t kMaxSample = 8;
  for (auto first = chunk_refs_.begin(); first != chunk_refs_.end();) {
    const Layer& layer = layer_of(*first);
    const auto is_here = [&](const ChunkRef& chunk_ref) { return &layer_of(chunk_ref) == &layer; };
    const auto last = std::partition_point(first, chunk_refs_.end(), is_here);
    if (layer.file().is_sample_due()) {
      std::vector<io::ByteRange> ranges;
      const auto step = std::max<ptrdiff_t>(1, (last - first) / kMaxSample);
      for (ptrdiff_t i = 0; i < last - first; i += step) ranges.push_back(layer.range_of(first[i].chunk->record()));
      layer.file().sample(ranges);
    }
    first = last;
  }
}

// Memory is allocated for what blocks claim to hold. Those that claim much more than they store are read first.
void Slice::check_claims() const {
  constexpr uint64_t kUsualFactor = 256, kAlways = uint64_t{256} << 20;
  uint64_t claimed = 0;
  std::vector<const BlockTask*> doubtful;
  for (const BlockTask& unit : units_) {
    if (unit.block.is_read) continue;
    const ChunkRef& chunk_ref = chunk_refs_[unit.first];
    const uint64_t stored_bytes = layer_of(chunk_ref).place_of(chunk_ref.chunk->block).length;
    if (unit.block.decoded_bytes / kUsualFactor <= stored_bytes) continue;
    doubtful.push_back(&unit);
    claimed = std::min(kAlways + 1, claimed + std::min(kAlways + 1, unit.block.decoded_bytes));
  }
  if (claimed <= kAlways) return;
  for (const BlockTask* const unit : doubtful) {
    const ChunkRef& chunk_ref = chunk_refs_[unit->first];
    in_array(layer_of(chunk_ref).path(), name_of(chunk_ref), [&] { static_cast<void>(load(*unit)); });
  }
}

// Checked before memory is allocated for the chunk's claimed size. If the block itself is damaged, that is the error.
void Slice::check_chunk_ref(const BlockTask& unit, const ChunkRef& chunk_ref) const {
  const ColumnLayout& layout = *rows_[chunk_ref.row].layout;
  const ColumnChunk& chunk = *chunk_ref.chunk;
  in_array(layer_of(chunk_ref).path(), name_of(chunk_ref), [&] {
    try {
      check_in_bounds(chunk.record(), unit.block.decoded_bytes);
    } catch (const CorruptFileError&) {
      static_cast<void>(load(unit));
      throw;
    }
    const uint64_t item = item_bytes(layout.type);
    const uint64_t n =
        layout.n_cells == 1 ? layout.n_elements : layout.grid.box_of(layout.grid.cell_at(chunk.cell)).n_elements();
    item > 0 ? check_chunk_bytes(n * item, chunk.bytes) : check_room_for_offsets(n, chunk.bytes);
  });
}

void Slice::check_unwritten() const {
  for (const Row& row : rows_) {
    if (row.layout == nullptr || row.is_complete) continue;
    in_array(column_->layers().layer(0).path(), column_->name(row.number),
             [&] { check_cells_are_known(column_->layers(), row.layout->foreign_layer); });
  }
}

// Repeated rows count once: the caller asked for them, the file does not claim them.
void Slice::check_unstored(std::optional<uint64_t> chosen) const {
  const uint64_t limit = max_unstored_bytes(column_->layers().file_bytes(), chosen);
  constexpr uint64_t kEnough = uint64_t{1} << 62;
  uint64_t all = 0;
  for (const Row& row : rows_) {
    if (row.layout != nullptr) all = std::min(kEnough, all + memory_of(row.n_elements, row.layout->type));
  }
  if (all <= limit) return;
  std::unordered_set<uint64_t> seen;
  std::vector<bool> repeated(rows_.size());
  uint64_t wanted = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.layout == nullptr) continue;
    repeated[i] = !seen.insert(row.number).second;
    if (!repeated[i]) wanted += memory_of(row.n_elements, row.layout->type);
  }
  const uint64_t stored = stored_bytes_of(repeated);
  if (wanted <= stored || wanted - stored <= limit) return;
  in_file(column_->layers().layer(0).path(), [&] { refuse_unstored(wanted - stored, limit); });
}

// At most the size of each block: many arrays may claim the same bytes of it.
uint64_t Slice::stored_bytes_of(const std::vector<bool>& repeated) const {
  uint64_t stored = 0;
  for (size_t i = 0; i < units_.size();) {
    const uint64_t block = chunk_refs_[units_[i].first].block, decoded = units_[i].block.decoded_bytes;
    uint64_t claimed = 0;
    for (; i < units_.size() && chunk_refs_[units_[i].first].block == block; ++i) {
      for (const ChunkRef& chunk_ref : refs_of(units_[i]))
        claimed += repeated[chunk_ref.row] ? 0 : chunk_ref.chunk->bytes;
    }
    stored += std::min(claimed, decoded);
  }
  return stored;
}

Box Slice::box_of(const Row& row) const {
  const auto start = start_of(row), count = count_of(row);
  return {{start.begin(), start.end()}, {count.begin(), count.end()}};
}

void Slice::fill(ColumnVisitor& visitor) const {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.layout == nullptr || row.is_complete || row.type.kind != ColumnKind::numeric) continue;
    visitor.fill(i, Bytes(row.layout->fill).first(item_bytes(row.layout->type)));
  }
}

// Reading of the units of a slice.

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

// All ranges together: each that is read without it would wait for the one before.
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

// The block with its stored bytes, which are valid until this thread loads another.
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
  in_array(layer.path(), name_of(chunk_ref), [&] {
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
    if (!fits && is_mostly_wanted(unit)) {  // it is used up immediately
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
    in_array(layer_of(chunk_ref).path(), name_of(chunk_ref), [&] { deliver(chunk_ref, chunk, visitor); });
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
    std::byte* const out = visitor.place(chunk_ref.row, 0, row.n_elements);
    return for_each_common_run(cell, slice, [&](uint64_t from, uint64_t to, uint64_t n) {
      const Bytes run = chunk.subspan(from * item, n * item);
      if (out == nullptr) return visitor.values(chunk_ref.row, to, run);
      store(out + to * item, run);
    });
  }
  for_each_common_string(chunk, cell, layout.type, slice,
                         [&](uint64_t element, Bytes text) { visitor.text(chunk_ref.row, element, text); });
}

}  // namespace atompack::array_file
