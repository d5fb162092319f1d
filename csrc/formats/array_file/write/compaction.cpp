#include "formats/array_file/write/compaction.h"

#include <deque>

#include "formats/array_file/read/read_box.h"
#include "formats/array_file/read/summary.h"

namespace atompack::array_file {
namespace {

class Compaction {
 public:
  Compaction(const Reader& reader, LayerWriter& base) : reader_(reader), base_(base) {}

  void take(const std::string& name) {
    const Array array = reader_.array(name);
    try {
      check_can_be_rewritten(array);
      copy(array);
    } catch (DataError& error) {
      error.at_field(name);
      throw;
    }
  }

  StatisticsList finish() {
    std::vector<const LayerArray*> arrays;
    for (const LayerArray& array : arrays_) arrays.push_back(&array);
    base_.finish(std::move(arrays), 0, "");
    return std::move(statistics_);
  }

 private:
  void copy(const Array& array) {
    LayerArray& made = arrays_.emplace_back(LayerArray{definition_of(array), false, {}});
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
