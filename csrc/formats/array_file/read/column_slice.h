// Same slice of many arrays, planned by blocks so that each is decoded once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/column.h"

namespace atompack::array_file {

class Slice final : public ColumnSlice {
 public:
  // Rows of `column`, in any order, repeats allowed. Throws FieldError for a request whose rank differs from the
  // arrays; CorruptFileError, UnsupportedFormatError for errors of one of the arrays.
  Slice(std::shared_ptr<const Column> column, std::span<const int64_t> rows, const SliceRequest& request,
        BlockCache& cache);

  size_t n_rows() const override { return rows_.size(); }
  bool is_present(size_t row) const override { return rows_[row].layout != nullptr; }
  ColumnType type(size_t row) const override { return rows_[row].type; }
  std::span<const uint64_t> shape(size_t row) const override { return count_of(rows_[row]); }

  void fill(ColumnVisitor& visitor) const override;
  size_t n_units() const override { return units_.size(); }
  uint64_t work(size_t unit) const override;
  void announce() const override;
  void read(size_t unit, ColumnVisitor& visitor) const override;

 private:
  struct Row {
    const ColumnLayout* layout = nullptr;  // null: there is no such array
    ColumnType type;
    uint64_t number = 0;      // in the column
    uint64_t first_axis = 0;  // in axes_: starts, then counts
    uint64_t n_elements = 0;  // of the slice
    bool is_whole = false;
    bool is_complete = false;  // each cell of the slice has a chunk
  };
  struct ChunkRef {
    uint64_t block = 0;  // layer and id
    uint64_t row = 0;
    const ColumnChunk* chunk = nullptr;
  };
  // Chunks of one block that is decoded for all of them; for an uncompressed block, a range of its chunks.
  struct BlockTask {
    size_t first = 0, last = 0;
    BlockView block;
    uint64_t wanted = 0;  // bytes of its chunks
    uint64_t end = 0;     // end of the last chunk
    uint64_t copied = 0;  // upper bound of the bytes that the slice copies
  };

  std::span<const uint64_t> start_of(const Row& row) const { return axes(row.first_axis, row); }
  std::span<const uint64_t> count_of(const Row& row) const { return axes(row.first_axis + rank_of(row), row); }
  std::span<const uint64_t> axes(uint64_t first, const Row& row) const {
    return std::span(axes_).subspan(first, rank_of(row));
  }
  static size_t rank_of(const Row& row) { return row.layout->shape.size(); }

  std::string_view name_of(const ChunkRef& chunk_ref) const { return column_->name(rows_[chunk_ref.row].number); }
  Box box_of(const Row& row) const;

  void add_row(uint64_t number, const SliceRequest& request);
  void add_axes(Row& row, const SliceRequest& request);
  void add_chunk_refs(Row& row);
  void group_chunk_refs();
  void sample_layers() const;
  void check_claims() const;
  void check_chunk_ref(const BlockTask& unit, const ChunkRef& chunk_ref) const;
  void check_unwritten() const;
  void check_unstored(std::optional<uint64_t> chosen) const;
  uint64_t stored_bytes_of(const std::vector<bool>& repeated) const;

  std::span<const ChunkRef> refs_of(const BlockTask& unit) const {
    return std::span(chunk_refs_).subspan(unit.first, unit.last - unit.first);
  }
  const Layer& layer_of(const ChunkRef& chunk_ref) const { return column_->layers().layer(chunk_ref.chunk->layer); }
  template <typename Use>
  void for_each_run(const BlockTask& unit, const Use& use) const;
  void add_ranges(const BlockTask& unit, std::vector<io::ByteRange>& ranges) const;
  BlockView load(const BlockTask& unit) const;
  void read_plain(const BlockTask& unit, ColumnVisitor& visitor) const;

  using CachedStretches = std::vector<std::shared_ptr<const DecodedBytes>>;
  std::shared_ptr<const DecodedBytes> find_cached(const BlockTask& unit) const;
  CachedStretches find_stretches(const BlockTask& unit) const;
  bool is_cached(const BlockTask& unit) const;
  bool is_mostly_wanted(const BlockTask& unit) const { return 2 * unit.wanted >= unit.block.decoded_bytes; }
  bool keeps_stretches(const BlockTask& unit) const;
  bool read_stretches(const BlockTask& unit, ColumnVisitor& visitor) const;
  void decode_stretches(const BlockTask& unit, ColumnVisitor& visitor) const;
  bool decode_in_place(const BlockTask& unit, ColumnVisitor& visitor) const;
  void deliver(const BlockTask& unit, Bytes block, ColumnVisitor& visitor) const;
  void deliver(std::span<const ChunkRef> chunk_refs, Bytes bytes, uint64_t offset, ColumnVisitor& visitor) const;
  void deliver(const ChunkRef& chunk_ref, Bytes chunk, ColumnVisitor& visitor) const;

  std::shared_ptr<const Column> column_;
  BlockCache& cache_;
  std::vector<Row> rows_;
  std::vector<uint64_t> axes_;
  std::vector<ChunkRef> chunk_refs_;
  std::vector<BlockTask> units_;
  uint64_t decoded_bytes_ = 0;  // of all blocks
  uint64_t partly_wanted_ = 0;  // bytes of blocks of which less than half is needed
};

}  // namespace atompack::array_file
