#include "formats/array_file/write/pending.h"

#include <algorithm>

#include "formats/array_file/layer/strings.h"

namespace atompack::array_file {
namespace {

bool covers(const Box& outer, const Box& inner) {
  for (size_t i = 0; i < outer.start.size(); ++i) {
    if (outer.start[i] > inner.start[i]) return false;
    if (outer.start[i] + outer.count[i] < inner.start[i] + inner.count[i]) return false;
  }
  return true;
}

// Offset of the elements of `part` in those of `whole`, if they are contiguous there.
std::optional<uint64_t> run_of(const Box& part, const Box& whole) {
  const Overlap overlap(part, whole);
  if (overlap.empty() || overlap.run() != part.n_elements()) return std::nullopt;
  return overlap.in_b();
}

uint64_t encoded_bytes(std::span<const std::string_view> strings) {
  uint64_t bytes = sizeof(uint32_t) * (strings.size() + 1);
  for (const std::string_view text : strings) bytes += text.size();
  return bytes;
}

void encode_strings(std::span<const std::string_view> strings, std::byte* out) {
  std::byte* payload = out + sizeof(uint32_t) * (strings.size() + 1);
  uint32_t offset = 0;
  out = store_le(out, offset);
  for (const std::string_view text : strings) {
    offset += static_cast<uint32_t>(text.size());
    out = store_le(out, offset);
    payload = store(payload, as_bytes(text));
  }
}

Grid grid_of(const ArrayDefinition& definition) {
  // An array that was read and has no chunks may be inconsistent; it can then only be deleted.
  if (definition.shape.size() != definition.chunk_shape.size()) return {{}, {}};
  return {definition.shape, definition.chunk_shape};
}

}  // namespace

PendingArray::PendingArray(ArrayDefinition definition, std::unique_ptr<const Array> below_array)
    : layer{std::move(definition), false, {}},
      grid(grid_of(layer.definition)),
      below(std::move(below_array)),
      summary(layer.definition.type, layer.definition.fill) {
  if (below) layer.attributes = below->attributes;
}

const ChunkPlace* PendingArray::find(uint64_t cell) const {
  const auto found = chunk_at.find(cell);
  return found == chunk_at.end() ? nullptr : &layer.chunks[found->second].place;
}

void PendingArray::put(uint64_t cell, const ChunkPlace& place, Bytes chunk, const Box& box) {
  const auto [at, is_new] = chunk_at.try_emplace(cell, layer.chunks.size());
  if (is_new) {
    layer.chunks.push_back({cell, place});
  } else {
    layer.chunks[at->second].place = place;
    summary_holds = false;
  }
  if (summary_holds) summary.add(chunk, box.n_elements());
}

void PendingArray::set_attribute(std::string_view key, AttributeValue value) {
  if (auto* const text = std::get_if<std::string_view>(&value)) *text = texts.emplace_back(*text);
  const auto found = std::ranges::find(layer.attributes, key, &Attribute::key);
  if (found != layer.attributes.end()) {
    found->value = std::move(value);
  } else {
    layer.attributes.push_back({texts.emplace_back(key), std::move(value)});
  }
}

void ChunkStore::for_each_cell(const PendingArray& array, const Box& box, const std::function<void(const Cell&)>& use) {
  const std::optional<Box> cells = array.grid.cells_meeting(box);
  if (!cells) return;
  std::vector<uint64_t> cell = cells->start;
  do {
    use({array.grid.number_of(cell), array.grid.box_of(cell)});
  } while (advance(cell, *cells));
}

Bytes ChunkStore::chunk(const PendingArray& array, uint64_t cell) {
  if (const ChunkPlace* const place = array.find(cell)) return layer_->read(*place);
  if (!array.below) return {};
  if (const StoredChunk* const stored = array.below->chunk_of(cell)) return committed_.read_chunk(*stored, last_);
  check_cells_are_known(committed_.layers(), array.below->foreign_layer);
  return {};
}

void ChunkStore::write(PendingArray& array, const Box& box, Bytes numbers) {
  for_each_cell(array, box, [&](const Cell& cell) { write_cell(array, cell, box, numbers); });
}

void ChunkStore::write(PendingArray& array, const Box& box, std::span<const std::string_view> strings) {
  for_each_cell(array, box, [&](const Cell& cell) { write_cell(array, cell, box, strings); });
}

void ChunkStore::write_cell(PendingArray& array, const Cell& cell, const Box& box, Bytes numbers) {
  const uint64_t item = array.item(), bytes = cell.box.n_elements() * item;
  const ChunkPlace* const present = array.find(cell.number);
  if (const auto room = present != nullptr ? layer_->changeable(*present) : std::span<std::byte>(); !room.empty()) {
    copy_numbers(numbers, box, item, cell.box, room);
    array.summary_holds = false;
    return;
  }
  const bool whole = covers(box, cell.box);
  if (const auto begin = whole ? run_of(cell.box, box) : std::nullopt) {
    const Bytes chunk = numbers.subspan(*begin * item, bytes);
    array.put(cell.number, layer_->append(chunk, array.grid.n_cells()), chunk, cell.box);
    return;
  }
  const Bytes old = whole ? Bytes() : chunk(array, cell.number);
  if (!old.empty()) check_chunk_bytes(bytes, old.size());
  ChunkPlace place;
  const std::span<std::byte> room(layer_->add(bytes, array.grid.n_cells(), place), bytes);
  if (!old.empty()) {
    store(room.data(), old);
  } else if (!whole) {
    const auto fill = fill_item(array.definition().type, view(array.definition().fill));
    repeat(Bytes(fill).first(item), room);
  }
  copy_numbers(numbers, box, item, cell.box, room);
  array.put(cell.number, place, room, cell.box);
}

void ChunkStore::write_cell(PendingArray& array, const Cell& cell, const Box& box,
                            std::span<const std::string_view> strings) {
  const bool whole = covers(box, cell.box);
  if (const auto begin = whole ? run_of(cell.box, box) : std::nullopt) {
    return put_strings(array, cell, strings.subspan(*begin, cell.box.n_elements()));
  }
  const uint64_t n = cell.box.n_elements();
  const Bytes stored = whole ? Bytes() : chunk(array, cell.number);
  const std::vector<std::byte> old(stored.begin(), stored.end());  // it may be in the block that grows now
  std::vector<std::string_view> merged(n);
  if (!old.empty()) {
    const Strings before(old, n);
    for (uint64_t i = 0; i < n; ++i) merged[i] = as_text(before.at(i));
  }
  for_each_common_run(box, cell.box, [&](uint64_t from, uint64_t to, uint64_t count) {
    std::copy_n(strings.begin() + static_cast<std::ptrdiff_t>(from), count,
                merged.begin() + static_cast<std::ptrdiff_t>(to));
  });
  put_strings(array, cell, merged);
}

void ChunkStore::put_strings(PendingArray& array, const Cell& cell, std::span<const std::string_view> strings) {
  const uint64_t bytes = encoded_bytes(strings);
  ChunkPlace place;
  std::byte* const room = layer_->add(bytes, array.grid.n_cells(), place);
  encode_strings(strings, room);
  array.put(cell.number, place, {room, bytes}, cell.box);
}

void ChunkStore::read(const PendingArray& array, const Box& box, std::span<std::byte> out) {
  const auto fill = fill_item(array.definition().type, view(array.definition().fill));
  repeat(Bytes(fill).first(array.item()), out);
  for_each_cell(array, box, [&](const Cell& cell) {
    const Bytes stored = chunk(array, cell.number);
    if (!stored.empty()) copy_numbers(stored, cell.box, array.item(), box, out);
  });
}

void ChunkStore::read(const PendingArray& array, const Box& box, std::span<std::string> out) {
  for (std::string& text : out) text.clear();
  for_each_cell(array, box, [&](const Cell& cell) {
    const Bytes stored = chunk(array, cell.number);
    if (!stored.empty()) copy_strings(stored, cell.box, array.definition().type, box, out);
  });
}

void ChunkStore::fill_rest(PendingArray& array) {
  const uint64_t n_cells = array.grid.n_cells();
  const auto fill = fill_item(array.definition().type, view(array.definition().fill));
  for (uint64_t number = 0; number < n_cells; ++number) {
    if (array.find(number) != nullptr) continue;
    const Cell cell{number, array.grid.box_of(array.grid.cell_at(number))};
    const uint64_t n = cell.box.n_elements();
    if (holds_strings(array.definition().type)) {
      put_strings(array, cell, std::vector<std::string_view>(n));
      continue;
    }
    ChunkPlace place;
    const std::span<std::byte> room(layer_->add(n * array.item(), n_cells, place), n * array.item());
    repeat(Bytes(fill).first(array.item()), room);
    array.put(number, place, room, cell.box);
  }
}

namespace {

class Compaction {
 public:
  Compaction(const Reader& reader, LayerWriter& base) : reader_(reader), base_(base) {}

  void take(const std::string& name) {
    const Array array = reader_.array(name);
    at_field(name, [&] {
      check_can_be_rewritten(array);
      copy(array);
    });
  }

  StatisticsList finish() {
    std::vector<const LayerArray*> arrays;
    for (const LayerArray& array : arrays_) arrays.push_back(&array);
    base_.finish(std::move(arrays), 0, "");
    return std::move(statistics_);
  }

 private:
  void copy(const Array& array) {
    LayerArray& made = arrays_.emplace_back(LayerArray{definition_of(array), false, {}, array.attributes});
    Summary summary(array.type, made.definition.fill);
    if (!array.chunks.empty()) {
      copy_chunks(array, made, summary);
    } else if (array.n_elements() > 0) {
      check_cells_are_known(reader_.layers(), array.foreign_layer);
    }
    // Includes arrays that were never written, unlike after a flush.
    statistics_.emplace_back(array.name, summary.statistics(array.n_elements()));
  }

  void copy_chunks(const Array& array, LayerArray& made, Summary& summary) {
    const Grid grid = array.grid();
    if (array.chunks.size() < grid.n_cells()) check_cells_are_known(reader_.layers(), array.foreign_layer);
    for (const StoredChunk& chunk : array.chunks) {
      const Bytes stored = reader_.read_chunk(chunk, last_);
      summary.add(stored, grid.box_of(grid.cell_at(chunk.cell)).n_elements());
      made.chunks.push_back({chunk.cell, base_.append(stored, grid.n_cells())});
    }
  }

  const Reader& reader_;
  LayerWriter& base_;
  std::deque<LayerArray> arrays_;
  StatisticsList statistics_;
  DecodedBlock last_;
};

}  // namespace

StatisticsList write_compacted(const Reader& reader, LayerWriter& base) {
  Compaction compaction(reader, base);
  for (const std::string& name : reader.names()) compaction.take(name);
  return compaction.finish();
}

}  // namespace atompack::array_file
