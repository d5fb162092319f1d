// Store or collection as of when it was opened: its datasets, and columns of its variables.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/column_slice.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/definition.h"
#include "formats/atlas_store/collection.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// Consistent state of a store after its last complete flush, while others may be writing.

// The files of one variable.
struct VariableFiles {
  std::vector<array_file::LayerFile> layers;  // those that count, oldest first; empty if the base is missing
  std::string statistics_path;                // empty if they are older than the values
};

// Changes with every flush. Two handles with equal versions show the same data, as long as the first one is open.
struct Version {
  std::optional<io::FileVersion> metadata;
  std::optional<io::FileVersion> intent;  // of the record of an incomplete flush, in a remote store of any flush
  bool operator==(const Version&) const = default;
};

struct Snapshot {
  Metadata metadata;
  std::optional<Form> form;              // nullopt: there is no metadata file yet
  std::vector<VariableFiles> variables;  // by variable number
  std::vector<std::string> warnings;     // includes those of the metadata
  Version version;
  // Kept open, so that no other file can get their inode numbers.
  std::shared_ptr<const io::OpenFile> metadata_file, intent_file;
  // Of a collection, which has neither metadata file nor flushes: the versions are those of container and mask.
  std::shared_ptr<const Container> container;
};

// Throws IoError, including when the store is written to so often that no consistent state can be read;
// CorruptFileError, UnsupportedFormatError. It is also CorruptFileError if the metadata has more than
// `max_metadata_bytes`, compressed or not.
Snapshot read_snapshot(const io::Location& store, uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes);

// True if nobody has started a flush since the snapshot was taken. Layers that are opened later belong to the snapshot
// if they can be opened and this is true afterwards (FORMAT.md, "Reading next to a writer"). UnsupportedFormatError if
// there is a collection next to the store; if the store cannot be listed, that is looked for only when it `is_opened`.
bool is_current(const io::Location& store, const Snapshot& snapshot, bool is_opened = false);

// Files of variables are opened on first use; additions by later flushes are ignored. If the store was written to
// in the meantime, opening a variable is an error, and so is reopening the store for a handle with the earlier version:
// a FieldError, or IoError (ESTALE) for a remote store. Const methods are thread-safe, also in a fork of the process
// that opened it, unless it is remote.
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
  bool is_collection() const { return snapshot_.container != nullptr; }
  // False for stores of versions 0 and 1, where they are attributes of the dataset.
  bool has_array_attributes() const { return is_collection() || metadata().version > 1; }
  int64_t size() const override { return metadata().n_numbers(); }
  std::string_view dataset_name(int64_t dataset) const override;
  int64_t find_dataset(std::string_view name) const override;

  size_t n_variables() const override { return metadata().n_variables(); }
  std::string_view variable_name(uint32_t variable) const override { return metadata().variable_name(variable); }
  ColumnType type_of(uint32_t variable) const override;
  std::optional<HeldArray> find_held(uint32_t variable, int64_t dataset) const override;
  // The same by names, for arrays of at most `max_bytes`.
  std::optional<HeldArray> find_held(std::string_view dataset, std::string_view array, size_t max_bytes) const;
  int64_t window(uint32_t variable) const override;
  void prepare(std::span<const uint32_t> variables) const override;
  std::unique_ptr<ColumnSlice> slice(uint32_t variable, std::span<const int64_t> datasets,
                                     const SliceRequest& request) const override;

  // The array as described by its file. FieldError if the dataset has none.
  array_file::Array array(uint32_t variable, uint32_t dataset) const;
  // The same with its codecs, and with the names of its axes as the caller gave them, in any number.
  array_file::ArrayDefinition definition(uint32_t variable, uint32_t dataset) const;
  // Definitions of the arrays of datasets, once for those that follow each other and have the same layout, with the end
  // of each run.
  std::vector<std::pair<array_file::ArrayDefinition, size_t>> definitions(uint32_t variable,
                                                                          std::span<const uint32_t> datasets) const;
  // The files of a variable.
  const array_file::Layers& layers(uint32_t variable) const;
  // Reopens the files of a variable.
  std::unique_ptr<const array_file::Reader> open_reader(uint32_t variable, array_file::Reading reading) const;
  // By dataset, including deleted ones.
  array_file::Statistics statistics(uint32_t variable) const;
  // Attributes of a dataset, and of one of its arrays, in stored order; for stores of versions 0 and 1, those in its
  // array file.
  // FieldError if the dataset has no such array.
  AttributeList attributes(uint32_t dataset) const;
  AttributeList attributes(uint32_t variable, uint32_t dataset) const;
  // Throws FieldError.
  [[noreturn]] void fail_no_array(uint32_t variable, uint32_t dataset) const;
  // For each of these datasets, an identifier of the block that holds its first chunk: only equality is meaningful.
  // Empty arrays share one identifier.
  std::vector<int64_t> blocks(uint32_t variable, std::span<const int64_t> datasets) const;

 private:
  struct Variable;

  const Variable& load_variable(uint32_t variable) const;
  std::unique_ptr<const Variable> open(uint32_t variable) const;
  std::string base_path(uint32_t variable) const;
  bool is_by_dataset() const { return is_collection() && snapshot_.container->version == kByDataset; }
  array_file::Statistics collected_statistics(uint32_t variable) const;
  std::unique_ptr<const array_file::Reader> open_segments(uint32_t variable, array_file::Reading reading) const;
  using Segments = std::shared_ptr<const std::vector<array_file::Layer>>;
  const Segments& segments(array_file::Reading reading) const;
  void check_footers(const array_file::Layers& layers) const;
  uint64_t position(uint32_t variable, uint32_t dataset) const;
  AttributeList read_declared(uint32_t variable, uint32_t dataset,
                              const std::vector<DeclaredAttribute>& declared) const;
  bool agrees(const Schema& declared, const array_file::ColumnLayout& layout) const;
  [[noreturn]] void fail_replaced() const;
  [[noreturn]] void fail_disagreement(uint32_t variable, uint32_t dataset) const;

  io::Location place_;
  uint64_t max_metadata_bytes_;
  std::shared_ptr<array_file::BlockCache> cache_;
  Snapshot snapshot_;
  // Lock-free: if two threads open the same variable, the first one's result is kept.
  mutable std::vector<std::atomic<const Variable*>> variables_;
  // The same for the segments of a collection with one for each dataset, by the access to them.
  mutable std::array<std::atomic<const Segments*>, 2> segments_{};
};

// Verification: reads everything of a store to find damage.

// Reads files by pread: truncation during the pass is an error, not a signal. For one thread at a time.
class Verification {
 public:
  explicit Verification(std::shared_ptr<const Store> store);

  // Checks the array of one dataset for everything that reading it would report. Throws the error found; FieldError if
  // the dataset has none.
  void check(uint32_t variable, uint32_t dataset);

 private:
  std::shared_ptr<const Store> store_;
  std::vector<std::unique_ptr<const array_file::Reader>> readers_;  // by variable, created on demand
  array_file::DecodedBlock last_;
};

}  // namespace atompack::atlas_store
