// Changes that are not in a layer yet: arrays in the order in which they were touched, and their chunks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/layer_writer.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"

namespace atompack::array_file {

// Pending changes of one array.
struct PendingArray {
  // `below`: the array in the committed layers, whose chunks count if there is no newer one; null: there is none.
  PendingArray(ArrayDefinition definition, std::unique_ptr<const Array> below);

  const ArrayDefinition& definition() const { return layer.definition; }
  uint64_t item() const { return item_bytes(layer.definition.type); }
  const ChunkPlace* find(uint64_t cell) const;
  void put(uint64_t cell, const ChunkPlace& place, Bytes chunk, const Box& box);
  // Copies its texts.
  void set_attribute(std::string_view key, AttributeValue value);

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
  void write(PendingArray& array, const Box& box, Bytes numbers);
  void write(PendingArray& array, const Box& box, std::span<const std::string_view> strings);
  void read(const PendingArray& array, const Box& box, std::span<std::byte> out);
  void read(const PendingArray& array, const Box& box, std::span<std::string> out);
  // Writes the fill value to all cells that have no chunk here.
  void fill_rest(PendingArray& array);

 private:
  struct Cell {
    uint64_t number = 0;
    Box box;
  };

  void write_cell(PendingArray& array, const Cell& cell, const Box& box, Bytes numbers);
  void write_cell(PendingArray& array, const Cell& cell, const Box& box, std::span<const std::string_view> strings);
  void put_strings(PendingArray& array, const Cell& cell, std::span<const std::string_view> strings);
  // A chunk as stored; empty if missing. Valid until the next chunk is requested or added.
  Bytes chunk(const PendingArray& array, uint64_t cell);
  static void for_each_cell(const PendingArray& array, const Box& box, const std::function<void(const Cell&)>& use);

  LayerWriter* layer_;
  const Reader& committed_;
  DecodedBlock& last_;
};

// Compaction: merging of all layers of an array file.

// Writes a whole new base of the existing arrays, in order of first appearance, each chunk from its newest layer;
// returns their statistics. One chunk is in memory at a time. Throws CorruptFileError; UnsupportedFormatError for
// lists.
StatisticsList write_compacted(const Reader& reader, LayerWriter& base);

}  // namespace atompack::array_file
