// Consecutive rows of an ASE database in memory, parsed once: for conversions, which read every row once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "formats/lmdb/row_list.h"
#include "formats/parsed/source.h"

namespace atompack::lmdb {

// Memory of rows that later blocks reuse. Thread-safe.
class RowPool {
 public:
  std::vector<Row> take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return {};
    std::vector<Row> rows = std::move(free_.back());
    free_.pop_back();
    return rows;
  }
  void give(std::vector<Row> rows) {
    constexpr size_t kMaxFree = 2;
    const std::scoped_lock lock(mutex_);
    if (free_.size() < kMaxFree) free_.push_back(std::move(rows));
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<Row>> free_;
};

// Immutable.
class RowBlock {
 public:
  // Reads rows on up to `n_threads` threads. Throws CorruptFileError with the number of the row.
  RowBlock(const RowList& list, std::string path, int64_t first, int64_t last, unsigned n_threads,
           std::shared_ptr<RowPool> pool);
  RowBlock(const RowBlock&) = delete;
  RowBlock& operator=(const RowBlock&) = delete;
  ~RowBlock() { pool_->give(std::move(rows_)); }

  const parsed::Survey& survey() const { return survey_; }
  // Rows with an array under a key of molecules.
  uint64_t count_arrays(std::string_view key) const;
  const std::vector<Row>& rows() const { return rows_; }
  const std::string& path() const { return path_; }
  int64_t first() const { return first_; }

 private:
  std::string path_;
  int64_t first_;
  std::shared_ptr<RowPool> pool_;
  std::vector<Row> rows_;
  parsed::Survey survey_;
};

// Rows of a database, read in blocks. Thread-safe.
class RowReader {
 public:
  // Throws CorruptFileError.
  RowReader(const std::string& path, unsigned n_threads) : n_threads_(n_threads), rows_(path) {}

  int64_t size() const { return rows_.size(); }
  // Reads the rows from `first` on, up to `last` or until they take `max_bytes` of the file; at least one.
  std::unique_ptr<RowBlock> read(int64_t first, int64_t last, uint64_t max_bytes) const;

 private:
  unsigned n_threads_;
  RowList rows_;
  std::shared_ptr<RowPool> pool_ = std::make_shared<RowPool>();
};

// The rows of a block as molecules. Thread-safe: immutable after construction.
class RowBlockSource final : public parsed::RecordSource {
 public:
  RowBlockSource(std::shared_ptr<const RowBlock> block, std::shared_ptr<const parsed::FieldMap> fields)
      : RecordSource(std::move(fields)), block_(std::move(block)) {}

  int64_t size() const override { return std::ssize(block_->rows()); }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override;
  void locate(DataError& error, int64_t index) const override {
    error.in_file(block_->path()).at_molecule(block_->first() + index);
  }

 private:
  Bytes parse(int64_t index, std::span<std::byte> scratch) const override;

  std::shared_ptr<const RowBlock> block_;
};

// Builds the record of a row in the scratch. Arrays of the row may be widened.
Bytes build_record(Row& row, const parsed::FieldMap& fields, std::span<std::byte> scratch);

}  // namespace atompack::lmdb
