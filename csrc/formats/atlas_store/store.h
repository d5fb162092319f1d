// Store as of when it was opened: its datasets, and columns of its variables.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/array_file/read/column_slice.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/atlas_store/snapshot.h"

namespace atompack::atlas_store {

// Files of variables are opened on first use; additions by later flushes are ignored. If the store was written to
// meanwhile, opening a variable is an error, and so is reopening the store for a handle with the earlier version: a
// FieldError, or IoError (ESTALE) for a remote store. Const methods are thread-safe, also in a fork of the process that
// opened it, unless it is remote.
class Store final : public ColumnSource {
 public:
  // `expected`: version() of an earlier handle, which must not differ. Throws IoError, CorruptFileError,
  // UnsupportedFormatError. `max_metadata_bytes`: limit on the metadata file, and on the footers of each variable.
  // `cache`: of decoded blocks, not nullptr.
  explicit Store(io::Location place, const std::optional<Version>& expected = std::nullopt,
                 uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes,
                 std::shared_ptr<array_file::BlockCache> cache = array_file::shared_block_cache());
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() override;

  const std::string& path() const override { return place_.path(); }
  const Version& version() const { return snapshot_.version; }
  const std::vector<std::string>& warnings() const { return snapshot_.warnings; }

  // Its datasets are numbered consecutively from 0.
  const Metadata& metadata() const { return snapshot_.metadata; }
  int64_t size() const override { return metadata().n_numbers(); }
  std::string_view dataset_name(int64_t dataset) const override;
  int64_t find_dataset(std::string_view name) const override;

  size_t n_variables() const override { return metadata().n_variables(); }
  std::string_view variable_name(uint32_t variable) const override { return metadata().variable_name(variable); }
  ColumnType type_of(uint32_t variable) const override;
  std::optional<HeldArray> find_held(uint32_t variable, int64_t dataset) const override;
  int64_t window(uint32_t variable) const override;
  void prepare(std::span<const uint32_t> variables) const override;
  std::unique_ptr<ColumnSlice> slice(uint32_t variable, std::span<const int64_t> datasets,
                                     const SliceRequest& request) const override;

  // The array as described by its file. FieldError if the dataset has none.
  array_file::Array array(uint32_t variable, uint32_t dataset) const;
  // The files of a variable.
  const array_file::Layers& layers(uint32_t variable) const;
  // Opens the files of a variable anew.
  std::unique_ptr<const array_file::Reader> open_reader(uint32_t variable, array_file::Reading reading) const;
  // By dataset, including deleted ones.
  array_file::Statistics statistics(uint32_t variable) const;
  // For each of these datasets, an identifier of the block that holds its first chunk: only equality is meaningful.
  // Empty arrays share one identifier.
  std::vector<int64_t> blocks(uint32_t variable, std::span<const int64_t> datasets) const;

 private:
  struct Variable;

  const Variable& load_variable(uint32_t variable) const;
  std::unique_ptr<const Variable> open(uint32_t variable) const;
  std::string base_path(uint32_t variable) const;
  [[noreturn]] void fail_replaced() const;
  [[noreturn]] void fail_disagreement(uint32_t variable, uint32_t dataset) const;

  io::Location place_;
  uint64_t max_metadata_bytes_;
  std::shared_ptr<array_file::BlockCache> cache_;
  Snapshot snapshot_;
  // Lock-free: if two threads open the same variable, the first one's result is kept.
  mutable std::vector<std::atomic<const Variable*>> variables_;
};

}  // namespace atompack::atlas_store
