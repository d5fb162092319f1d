#include "formats/array_file/write/writer.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layer_writer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/layer/strings.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/updated_statistics.h"
#include "io/file.h"
#include "threads/process.h"

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

// Merging of all layers of an array file.

// Writes a whole new base of the existing arrays, in order of first appearance, each chunk from its newest layer;
// returns their statistics. One chunk is in memory at a time. Throws CorruptFileError; UnsupportedFormatError for
// lists.
StatisticsList write_compacted(const Reader& reader, LayerWriter& base) {
  std::deque<LayerArray> arrays;
  std::vector<const LayerArray*> contents;
  StatisticsList statistics;
  DecodedBlock last;
  const auto copy = [&](const Array& array) {
    check_can_be_rewritten(array);
    LayerArray& made = arrays.emplace_back(LayerArray{definition_of(array), false, {}, array.attributes});
    contents.push_back(&made);
    Summary summary(array.type, made.definition.fill);
    const Grid grid = array.chunks.empty() ? Grid({}, {}) : array.grid();
    const bool is_whole = array.chunks.empty() ? array.n_elements() == 0 : array.chunks.size() >= grid.n_cells();
    if (!is_whole) check_cells_are_known(reader.layers(), array.foreign_layer);
    for (const StoredChunk& chunk : array.chunks) {
      const Bytes stored = reader.read_chunk(chunk, last);
      summary.add(stored, grid.box_of(grid.cell_at(chunk.cell)).n_elements());
      made.chunks.push_back({chunk.cell, base.append(stored, grid.n_cells())});
    }
    // Includes arrays that were never written, unlike after a flush.
    statistics.emplace_back(array.name, summary.statistics(array.n_elements()));
  };
  for (const std::string& name : reader.names()) {
    const Array array = reader.array(name);
    at_field(name, [&] { copy(array); });
  }
  base.finish(std::move(contents), 0, "");
  return statistics;
}

LayerOptions layer_options(const WriterOptions& options) {
  const int level = options.codec == codec::Codec::zstd ? options.level : 0;
  return {options.codec, level, options.block_bytes, codec::threads_for(options.codec, options.n_threads)};
}

WriterOptions checked(WriterOptions options) {
  if (options.codec == codec::Codec::zstd) codec::check_level(options.codec, options.level);
  return options;
}

void check_length(uint64_t expected, uint64_t got, std::string_view what) {
  if (expected != got) throw FieldError(cat(what, ": expected ", expected, ", got ", got));
}

void check_can_be_written(const ArrayDefinition& array) {
  const bool has_axes = array.chunk_shape.size() == array.shape.size();
  for (size_t i = 0; i < array.shape.size(); ++i) {
    if (has_axes && (array.chunk_shape[i] > 0 || array.shape[i] == 0)) continue;
    throw CorruptFileError("chunk shape: expected at least 1 along each axis, got 0");
  }
}

}  // namespace

// Pending changes of one array.
struct PendingArray {
  // `below_array`: that in the committed layers, whose chunks count if there is no newer one; null: there is none.
  PendingArray(ArrayDefinition definition, std::unique_ptr<const Array> below_array)
      : layer{std::move(definition), false, {}},
        grid(grid_of(layer.definition)),
        below(std::move(below_array)),
        summary(layer.definition.type, layer.definition.fill) {
    if (below) layer.attributes = below->attributes;
  }

  const ArrayDefinition& definition() const { return layer.definition; }
  uint64_t item() const { return item_bytes(layer.definition.type); }

  const ChunkPlace* find(uint64_t cell) const {
    const auto found = chunk_at.find(cell);
    return found == chunk_at.end() ? nullptr : &layer.chunks[found->second].place;
  }

  void put(uint64_t cell, const ChunkPlace& place, Bytes chunk, const Box& box) {
    const auto [at, is_new] = chunk_at.try_emplace(cell, layer.chunks.size());
    if (is_new) {
      layer.chunks.push_back({cell, place});
    } else {
      layer.chunks[at->second].place = place;
      summary_holds = false;
    }
    if (summary_holds) summary.add(chunk, box.n_elements());
  }

  // Copies its texts.
  void set_attribute(std::string_view key, AttributeValue value) {
    if (auto* const text = std::get_if<std::string_view>(&value)) *text = texts.emplace_back(*text);
    const auto found = std::ranges::find(layer.attributes, key, &Attribute::key);
    if (found != layer.attributes.end()) {
      found->value = std::move(value);
    } else {
      layer.attributes.push_back({texts.emplace_back(key), std::move(value)});
    }
  }

  LayerArray layer;  // with views of `texts`, and of the committed layers
  std::deque<std::string> texts;
  Grid grid;
  std::unique_ptr<const Array> below;
  // True if no cell may fall back to the layers below: they hold chunks of a deleted array of the same name.
  bool owns_every_cell = false;
  Summary summary;                                // of the chunks here
  bool summary_holds = true;                      // false: a chunk was changed after it was added
  std::unordered_map<uint64_t, size_t> chunk_at;  // by cell
};

// Writes values to chunks and reads them, together with those of the committed layers. For one thread at a time.
class ChunkStore {
 public:
  // The arguments must outlive the store. Without a layer, nothing can be written, and no array has chunks here.
  ChunkStore(LayerWriter* layer, const Reader& committed, DecodedBlock& last)
      : layer_(layer), committed_(committed), last_(last) {}

  // Writes the values of a checked box.
  template <typename Values>
  void write(PendingArray& array, const Box& box, const Values& values) {
    for_each_cell(array, box, [&](const Cell& cell) { write_cell(array, cell, box, values); });
  }

  void read(const PendingArray& array, const Box& box, std::span<std::byte> out) {
    const auto fill = fill_item(array.definition().type, view(array.definition().fill));
    repeat(Bytes(fill).first(array.item()), out);
    for_each_cell(array, box, [&](const Cell& cell) {
      const Bytes stored = chunk(array, cell.number);
      if (!stored.empty()) copy_numbers(stored, cell.box, array.item(), box, out);
    });
  }

  void read(const PendingArray& array, const Box& box, std::span<std::string> out) {
    for (std::string& text : out) text.clear();
    for_each_cell(array, box, [&](const Cell& cell) {
      const Bytes stored = chunk(array, cell.number);
      if (!stored.empty()) copy_strings(stored, cell.box, array.definition().type, box, out);
    });
  }

  // Writes the fill value to all cells that have no chunk here.
  void fill_rest(PendingArray& array) {
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

 private:
  struct Cell {
    uint64_t number = 0;
    Box box;
  };

  void write_cell(PendingArray& array, const Cell& cell, const Box& box, Bytes numbers) {
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

  void write_cell(PendingArray& array, const Cell& cell, const Box& box, std::span<const std::string_view> strings) {
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

  void put_strings(PendingArray& array, const Cell& cell, std::span<const std::string_view> strings) {
    const uint64_t bytes = encoded_bytes(strings);
    ChunkPlace place;
    std::byte* const room = layer_->add(bytes, array.grid.n_cells(), place);
    encode_strings(strings, room);
    array.put(cell.number, place, {room, bytes}, cell.box);
  }

  // A chunk as stored; empty if missing. Valid until the next chunk is requested or added.
  Bytes chunk(const PendingArray& array, uint64_t cell) {
    if (const ChunkPlace* const place = array.find(cell)) return layer_->read(*place);
    if (!array.below) return {};
    if (const StoredChunk* const stored = array.below->chunk_of(cell)) return committed_.read_chunk(*stored, last_);
    check_cells_are_known(committed_.layers(), array.below->foreign_layer);
    return {};
  }

  static void for_each_cell(const PendingArray& array, const Box& box, const std::function<void(const Cell&)>& use) {
    const std::optional<Box> cells = array.grid.cells_meeting(box);
    if (!cells) return;
    std::vector<uint64_t> cell = cells->start;
    do {
      use({array.grid.number_of(cell), array.grid.box_of(cell)});
    } while (advance(cell, *cells));
  }

  LayerWriter* layer_;
  const Reader& committed_;
  DecodedBlock& last_;
};

// Implementation of Writer; Writer adds path and array name to its errors. writer.h documents the methods.
class Writer::Impl {
 public:
  Impl(std::string path, WriterOptions options, io::FileSystem& files)
      : path_(std::move(path)), options_(checked(std::move(options))), files_(files), lock_(lock_base(files_, path_)) {
    if (dynamic_cast<const io::NewFile*>(lock_.get()) != nullptr) created_base_ = io::version_of(path_);
    committed();
  }

  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const std::string& name : committed().names()) {
      if (contains(name)) names.push_back(name);
    }
    for (const auto& array : arrays_) {
      const std::string& name = array->definition().name;
      if (!array->layer.deleted && !committed().contains(name)) names.push_back(name);
    }
    return names;
  }

  bool contains(std::string_view name) {
    const PendingArray* const array = find(name);
    return array != nullptr ? !array->layer.deleted : committed().contains(name);
  }

  ArrayDefinition definition(std::string_view name) {
    const PendingArray* const array = find(name);
    if (array != nullptr && !array->layer.deleted) return array->definition();
    if (array != nullptr) throw FieldError("no such array").in_file(path_);
    return definition_of(committed().array(name), committed().layers());
  }

  std::vector<Attribute> attributes(std::string_view name) {
    const PendingArray* const array = find(name);
    if (array == nullptr) return committed().array(name).attributes;
    if (array->layer.deleted) throw FieldError("no such array").in_file(path_);
    return array->layer.attributes;
  }

  void define(const ArrayDefinition& definition) {
    begin_change();
    if (contains(definition.name)) throw FieldError("array: expected a new name, got one that exists");
    auto array = std::make_unique<PendingArray>(with_defaults(definition), nullptr);
    array->owns_every_cell = committed().layers().holds_chunks_of(definition.name);
    if (find(definition.name) != nullptr) erase(definition.name);  // it was deleted
    insert(std::move(array));
  }

  template <typename Values>
  void write(std::string_view name, const Box& box, const Values& values) {
    check_usable();
    PendingArray* array = find(name);
    if (array != nullptr && array->layer.deleted) throw FieldError("no such array").in_file(path_);
    std::unique_ptr<PendingArray> fresh = array == nullptr ? load_pending(name) : nullptr;
    const ArrayDefinition& definition = (fresh ? *fresh : *array).definition();
    check_can_be_written(definition);
    check_box(definition.shape, box);
    check_values(definition, box, values);
    if (values.empty()) return;
    begin_change();
    layer();
    const bool is_first = fresh != nullptr;
    if (is_first) array = &insert(std::move(fresh));
    try {
      chunks().write(*array, box, values);
    } catch (...) {
      if (is_first && array->layer.chunks.empty()) erase(name);
      throw;
    }
  }

  void set_attribute(std::string_view name, std::string_view key, const AttributeValue& value) {
    begin_change();
    if (!contains(name)) throw FieldError("no such array").in_file(path_);
    check_attribute(key, value);
    PendingArray* array = find(name);
    if (array == nullptr) array = &insert(load_pending(name));
    array->set_attribute(key, value);
  }

  void remove(std::string_view name) {
    begin_change();
    if (!contains(name)) throw FieldError("no such array").in_file(path_);
    if (!committed().contains(name)) return erase(name);
    auto tombstone = load_pending(name);
    tombstone->layer.deleted = true;
    tombstone->layer.attributes.clear();
    if (find(name) != nullptr) erase(name);
    insert(std::move(tombstone));
  }

  void check_unstored(std::string_view name, const Box& box) {
    check_usable();
    const PendingArray* const array = find(name);
    if (array == nullptr || array->layer.deleted) {
      return committed().check_unstored(committed().array(name), box, options_.max_unstored_bytes);
    }
    check_box(array->definition().shape, box);
    const uint64_t limit = max_unstored_bytes(committed().layers().file_bytes(), options_.max_unstored_bytes);
    const uint64_t wanted = memory_of(box.n_elements(), array->definition().type);
    if (wanted <= limit) return;
    uint64_t stored = array->below ? decoded_bytes_for(committed().layers(), *array->below, box) : 0;
    for (const PlacedChunk& chunk : array->layer.chunks) {
      const Box cell = array->grid.box_of(array->grid.cell_at(chunk.cell));
      if (!Overlap(cell, box).empty()) stored += chunk.place.bytes;
    }
    if (wanted > stored && wanted - stored > limit) refuse_unstored(wanted - stored, limit);
  }

  template <typename Out>
  void read(std::string_view name, const Box& box, Out out) {
    check_usable();
    const PendingArray* const array = find(name);
    if (array == nullptr) return committed().read(committed().array(name), box, out, last_);
    if (array->layer.deleted) throw FieldError("no such array").in_file(path_);
    constexpr bool kStrings = std::is_same_v<Out, std::span<std::string>>;
    if (kStrings != holds_strings(array->definition().type)) {
      throw UnsupportedFormatError(cat("type: expected ", kStrings ? "strings or binary" : "numbers or timestamps",
                                       ", got ", name_of(array->definition().type)));
    }
    check_box(array->definition().shape, box);
    check_length(box.n_elements() * (kStrings ? 1 : array->item()), out.size(), "elements read");
    if (!out.empty()) chunks().read(*array, box, out);
  }

  bool has_changes() const { return !arrays_.empty(); }

  bool stage() {
    check_usable();
    if (!has_changes()) return false;
    if (staged_) return true;
    LayerWriter& layer = this->layer();
    std::vector<const LayerArray*> contents;
    for (const auto& array : arrays_) {
      if (array->owns_every_cell && !array->layer.deleted) chunks().fill_rest(*array);
      contents.push_back(&array->layer);
    }
    layer.finish(std::move(contents), number_, options_.base_hint);
    staged_ = true;
    return true;
  }

  const LayerWriter& staged() const {
    if (!staged_) throw InternalError("array file: no layer is staged");
    return *layer_;
  }

  uint32_t number() const { return number_; }

  std::string digest() {
    static_cast<void>(staged());
    return layer_digest(layer_->file());
  }

  // Called before publish() if no record says that the file's statistics are outdated.
  void withdraw_statistics() {
    check_usable();
    if (!withdrawn_) withdrawn_ = list_statistics(path_);
    files_.remove(statistics_path(path_));
  }

  void publish() {
    static_cast<void>(staged());
    publishing_ = true;  // even if this fails, the file may have been renamed
    layer_->file().publish(false);
    keep();
    const bool again = !changed_.empty();
    for (ChangedArray& array : changed_) array.newest.reset();
    for (const auto& array : arrays_) {
      const bool has_only_attributes = array->below && array->layer.chunks.empty() && !array->layer.deleted;
      if (has_only_attributes) continue;
      const bool holds = array->summary_holds && !again;
      changed_.push_back({array->definition().name, holds ? std::optional(std::move(array->summary)) : std::nullopt});
    }
    reset_pending();
  }

  void write_statistics() {
    check_usable();
    if (changed_.empty() && !withdrawn_) return;
    StatisticsList list = withdrawn_ ? *withdrawn_ : list_statistics(path_);
    update_statistics(committed(), changed_, list);
    io::replace_file(files_, statistics_path(path_), encode_statistics(list));
    changed_.clear();
    withdrawn_.reset();
  }

  // Forgets pending changes after they are committed or discarded.
  void reset_pending() {
    committed_.reset();
    by_name_.clear();
    arrays_.clear();
    layer_.reset();
    staged_ = publishing_ = false;
  }

  // Keeps the base even though this writer created it.
  void keep() { created_base_.reset(); }

  void abandon() {
    reset_pending();
    if (!created_base_ || io::version_of(path_) != created_base_ || layer_files(path_).size() > 1) return;
    files_.remove(path_);
    lock_.reset();
  }

  void compact() {
    check_usable();
    // Only the layers that exist now are read and removed: another program may add some.
    const std::vector<LayerFile> merged = layer_files(path_);
    committed_.reset();
    keep();
    LayerWriter base(files_.create(path_), layer_options(options_));
    const StatisticsList statistics = write_compacted(committed(), base);
    adopt_base(base.release());
    // From the oldest on: the remaining layers are newer than the base's content of the removed ones.
    for (const LayerFile& layer : merged) {
      if (layer.number > 0) files_.remove(layer.path());
    }
    io::replace_file(files_, statistics_path(path_), encode_statistics(statistics));
    changed_.clear();
    withdrawn_.reset();
  }

  bool rewrite_redefined() {
    check_usable();
    if (has_changes() || !committed().layers().hold_chunks_of_other_rank()) return false;
    compact();
    return true;
  }

 private:
  const Reader& committed() {
    if (!committed_) committed_ = std::make_unique<const Reader>(path_, options_.max_metadata_bytes, Reading::by_pread);
    const Layers& layers = committed_->layers();
    for (uint32_t i = 0; i < layers.n_layers(); ++i) {
      const uint32_t version = layers.layer(i).footer().version();
      if (version == kFooterVersion) continue;
      throw UnsupportedFormatError(cat("footer version: expected ", kFooterVersion, " to write, got ", version))
          .in_file(layers.layer(i).path());
    }
    return *committed_;
  }

  LayerWriter& layer() {
    if (layer_) return *layer_;
    const uint32_t newest = layer_files(path_).back().number;
    if (newest == std::numeric_limits<uint32_t>::max()) {
      throw UnsupportedFormatError(
          cat("layers: expected a number below ", newest, ", got none left: compact the file"));
    }
    layer_ = std::make_unique<LayerWriter>(files_.create(sidecar_path(path_, newest + 1)), layer_options(options_));
    number_ = newest + 1;
    return *layer_;
  }

  // For one call, or a repeated one.
  ChunkStore chunks() {
    if (layer_) layer_->resume();
    return {layer_.get(), committed(), last_};
  }

  PendingArray* find(std::string_view name) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // An array without pending changes.
  std::unique_ptr<PendingArray> load_pending(std::string_view name) {
    auto below = std::make_unique<const Array>(committed().array(name));
    check_can_be_rewritten(*below);
    ArrayDefinition definition = definition_of(*below, committed().layers());
    return std::make_unique<PendingArray>(std::move(definition), std::move(below));
  }

  PendingArray& insert(std::unique_ptr<PendingArray> array) {
    PendingArray& inserted = *arrays_.emplace_back(std::move(array));
    by_name_[inserted.definition().name] = &inserted;
    return inserted;
  }

  void erase(std::string_view name) {
    const PendingArray* const array = find(name);
    by_name_.erase(name);
    std::erase_if(arrays_, [&](const auto& held) { return held.get() == array; });
  }

  void begin_change() {
    check_usable();
    if (publishing_) throw IoError(EBUSY, "a staged layer has not been published yet", path_);
    staged_ = false;
  }

  void check_usable() const {
    if (!lock_) throw IoError(EBADF, "the writer lost its file", path_);
  }

  void check_values(const ArrayDefinition& array, const Box& box, Bytes numbers) const {
    const uint64_t item = item_bytes(array.type);
    if (item == 0 || array.type == Type::boolean) {
      throw FieldError(cat("values: expected ", name_of(array.type), ", got numbers"));
    }
    check_length(box.n_elements() * item, numbers.size(), "bytes of the values");
    uint64_t chunk_bytes = item;  // no overflow: no more than those of the array
    for (size_t i = 0; i < array.shape.size(); ++i) chunk_bytes *= std::min(array.shape[i], array.chunk_shape[i]);
    if (const uint64_t limit = max_block_bytes(options_.codec); chunk_bytes > limit) {
      throw FieldError(cat("chunk: expected at most ", limit, " bytes, got ", chunk_bytes));
    }
  }

  void check_values(const ArrayDefinition& array, const Box& box, std::span<const std::string_view> strings) const {
    if (!holds_strings(array.type)) throw FieldError(cat("values: expected ", name_of(array.type), ", got strings"));
    check_length(box.n_elements(), strings.size(), "values");
    for (size_t i = 0; array.type == Type::string && i < strings.size(); ++i) {
      if (!is_utf8(as_bytes(strings[i]))) throw FieldError(cat("string ", i, ": expected UTF-8, got other bytes"));
    }
  }

  // Takes over the base and its lock.
  void adopt_base(std::unique_ptr<io::NewFile> base) {
    committed_.reset();
    try {
      base->publish(true);
    } catch (...) {
      // Lock whichever file is at the path now.
      base.reset();
      lock_.reset();
      lock_ = files_.lock(path_);
      throw;
    }
    lock_ = std::move(base);
  }

  const std::string path_;
  const WriterOptions options_;
  io::FileSystem& files_;
  std::unique_ptr<io::WritableFile> lock_;       // the base
  std::optional<io::FileVersion> created_base_;  // version of the base while it is an empty one created by this writer
  std::unique_ptr<const Reader> committed_;
  DecodedBlock last_;

  std::vector<std::unique_ptr<PendingArray>> arrays_;  // in the order in which they were first touched
  std::unordered_map<std::string_view, PendingArray*> by_name_;
  std::unique_ptr<LayerWriter> layer_;
  uint32_t number_ = 0;  // of the layer
  bool staged_ = false;
  bool publishing_ = false;            // it can only be published or discarded
  std::vector<ChangedArray> changed_;  // since the statistics were last written
  std::optional<StatisticsList> withdrawn_;
};

Writer::Writer(const std::string& path, WriterOptions options, io::FileSystem& files)
    : path_(path), owner_(threads::process_id()), impl_(std::make_unique<Impl>(path, std::move(options), files)) {}

Writer::~Writer() {
  if (owner_ == threads::process_id()) return;
  // In a forked child there are no threads to stop, and locks may be held forever.
  static_cast<void>(impl_.release());
}

Writer::Impl& Writer::use() const {
  threads::check_writer_of(owner_, path_);
  return *impl_;
}

std::vector<std::string> Writer::names() const { return use().names(); }

bool Writer::contains(std::string_view name) const { return use().contains(name); }

ArrayDefinition Writer::definition(std::string_view name) const {
  return in_array(path_, name, [&] { return use().definition(name); });
}

std::vector<Attribute> Writer::attributes(std::string_view name) const {
  return in_array(path_, name, [&] { return use().attributes(name); });
}

void Writer::set_attribute(std::string_view name, std::string_view key, const AttributeValue& value) {
  in_array(path_, name, [&] { use().set_attribute(name, key, value); });
}

void Writer::define(const ArrayDefinition& definition) {
  in_array(path_, definition.name, [&] { use().define(definition); });
}

void Writer::write(std::string_view name, const Box& box, Bytes numbers) {
  in_array(path_, name, [&] { use().write(name, box, numbers); });
}

void Writer::write(std::string_view name, const Box& box, std::span<const std::string_view> strings) {
  in_array(path_, name, [&] { use().write(name, box, strings); });
}

void Writer::remove(std::string_view name) {
  in_array(path_, name, [&] { use().remove(name); });
}

void Writer::check_unstored(std::string_view name, const Box& box) const {
  in_array(path_, name, [&] { use().check_unstored(name, box); });
}

void Writer::read(std::string_view name, const Box& box, std::span<std::byte> out) {
  in_array(path_, name, [&] { use().read(name, box, out); });
}

void Writer::read(std::string_view name, const Box& box, std::span<std::string> out) {
  in_array(path_, name, [&] { use().read(name, box, out); });
}

bool Writer::has_changes() const { return use().has_changes(); }

bool Writer::stage() {
  return in_array(path_, "", [&] { return use().stage(); });
}

uint32_t Writer::staged_number() const {
  static_cast<void>(use().staged());
  return use().number();
}

std::string Writer::staged_digest() const { return use().digest(); }

void Writer::publish() { use().publish(); }

void Writer::write_statistics() { use().write_statistics(); }

void Writer::flush() {
  if (stage()) {
    use().withdraw_statistics();
    publish();
  }
  write_statistics();
  use().keep();
}

void Writer::discard() { use().reset_pending(); }

void Writer::abandon() { use().abandon(); }

bool Writer::rewrite_redefined() {
  return in_array(path_, "", [&] { return use().rewrite_redefined(); });
}

void Writer::compact() {
  flush();
  in_array(path_, "", [&] { use().compact(); });
}

}  // namespace atompack::array_file
