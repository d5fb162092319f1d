#include "formats/torch_cache/reader.h"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "io/locked_file.h"

namespace atompack::torch_cache {
namespace {

// Compares as unsigned, so that one comparison finds negative numbers too. No early exit, so that the loop vectorizes.
template <typename T>
uint64_t largest(Bytes row) {
  std::make_unsigned_t<T> largest = 0;
  for (size_t at = 0; at < row.size(); at += sizeof(T)) {
    largest = std::max(largest, load_le<std::make_unsigned_t<T>>(row.data() + at));
  }
  return largest;
}

template <typename T>
[[noreturn]] void fail_index(Bytes row, int64_t n_atoms) {
  for (size_t at = 0; at < row.size(); at += sizeof(T)) {
    const T found = load_le<T>(row.data() + at);
    if (found < 0 || found >= n_atoms) throw_corrupt("index: expected atoms from 0 to ", n_atoms - 1, ", got ", found);
  }
  throw CorruptFileError("index: the file changed while it was read");
}

template <typename T>
void check(Bytes row, int64_t n_atoms) {
  if (!row.empty() && largest<T>(row) >= static_cast<uint64_t>(n_atoms)) fail_index<T>(row, n_atoms);
}

}  // namespace

std::vector<int64_t> rows_by_entry(const std::string& section, std::span<const int64_t> cache_row,
                                   std::span<const int64_t> entry_idx, int64_t n_entries) {
  std::vector<int64_t> rows(static_cast<size_t>(n_entries), -1);
  for (size_t row = 0; row < cache_row.size(); ++row) {
    if (cache_row[row] != static_cast<int64_t>(row)) {
      throw_corrupt(section, "/index: cache_row: expected ", row, ", got ", cache_row[row]);
    }
    if (entry_idx[row] < 0 || entry_idx[row] >= n_entries) {
      throw CorruptFileError(
          cat(section, "/index: entry_idx: expected less than ", n_entries, ", got ", entry_idx[row]));
    }
    rows[static_cast<size_t>(entry_idx[row])] = static_cast<int64_t>(row);
  }
  return rows;
}

void check_length(const VlenColumn& column, int64_t row, int64_t n_rows, int64_t row_length) {
  const auto found = column.length(row);
  if (n_rows < 0 || n_rows > INT32_MAX || row_length < 0 || row_length > INT32_MAX ||
      found != static_cast<uint64_t>(n_rows) * static_cast<uint64_t>(row_length)) {
    throw CorruptFileError(cat("row: expected ", n_rows, " x ", row_length, " values as in the index, got ", found))
        .at_field(column.name());
  }
}

void check_indices(const VlenColumn& column, Bytes row, int64_t n_atoms) {
  at_field(column.name(),
           [&] { column.dtype() == DType::int64 ? check<int64_t>(row, n_atoms) : check<int32_t>(row, n_atoms); });
}

namespace {

using enum Column;

std::shared_ptr<const io::LocalFile> open_cache(const std::string& path, const OpenOptions& options) {
  const std::string& name = options.name.empty() ? path : options.name;
  auto file = std::make_shared<const io::LocalFile>(path, name);
  if (options.expected && !file->identity().same_file(*options.expected)) {
    throw IoError(ESTALE, "the file was replaced since it was opened", name);
  }
  return file;
}

io::MappedFile map(const std::string& path, const OpenOptions& options, io::FileIdentity& identity) {
  auto file = open_cache(path, options);
  identity = file->identity();
  return {std::move(file), identity.size, options.access, options.populate};
}

std::unique_ptr<const io::ByteSource> open_rows(const std::string& path, OpenOptions options,
                                                const io::FileIdentity& identity) {
  if (options.access != io::Access::read) return nullptr;
  options.expected = identity;
  return open_cache(path, options)->bytes(identity.size, options.access);
}

template <typename Action>
auto at_entry(const std::string& path, int64_t entry, const Action& action) {
  return with_context([&](DataError& error) { error.at_molecule(entry).in_file(path); }, action);
}

// Held while metadata is read, as by libhdf5, unless the environment turns its locks off. Nobody writes in a copy of a
// remote file, but the process that downloaded it may still lock it.
std::optional<io::SharedLock> lock_out_writers(const std::string& path, const OpenOptions& options,
                                               const io::FileIdentity& identity) {
  if (!options.name.empty()) return {};
  const char* const setting = std::getenv("HDF5_USE_FILE_LOCKING");  // NOLINT(concurrency-mt-unsafe)
  if (setting != nullptr && (std::string_view(setting) == "FALSE" || std::string_view(setting) == "0")) return {};
  return std::optional<io::SharedLock>(std::in_place, path, identity);
}

[[noreturn]] void fail_absent(const std::string& section, const std::string& path) {
  throw FieldError(section + ": expected a cache with this section, got one without").in_file(path);
}

}  // namespace

Cache::Cache(std::string path, const OpenOptions& options)
    : place_(std::move(path)),
      file_(map(place_, options, identity_)),
      rows_(open_rows(place_, options, identity_)),
      contents_(in_file(file_.path(),
                        [&] {
                          const auto lock = lock_out_writers(place_, options, identity_);
                          return read_contents(file_.whole());
                        })),
      heap_(rows_ ? *rows_ : file_, contents_.base) {
  in_file(file_.path(), [&] {
    check_claims();
    if (const auto& features = contents_.features) {
      const FeatureIndex& index = features->index;
      feature_rows_ = rows_by_entry("features", index.cache_row, index.entry_idx, n_entries());
      const int64_t first = index.n_features.empty() ? 0 : index.n_features.front();
      n_features_ = contents_.schema.descriptor->n_features.value_or(first);
    }
    if (const auto& derivatives = contents_.derivatives) {
      const DerivativeIndex& index = derivatives->index;
      derivative_rows_ = rows_by_entry("force_derivatives", index.cache_row, index.entry_idx, n_entries());
    }
  });
}

// Each row is stored separately; a file that claims more could make a batch of any size from few bytes.
void Cache::check_claims() const {
  uint64_t claimed = contents_.structures.total_bytes();
  if (contents_.features) claimed += contents_.features->values.total_bytes();
  if (contents_.derivatives) {
    for (const VlenColumn& column : contents_.derivatives->columns) claimed += column.total_bytes();
  }
  if (claimed > identity_.size) {
    throw_corrupt("rows: the file of ", identity_.size, " bytes cannot hold their ", claimed, " bytes");
  }
}

int64_t Cache::n_features() const {
  if (!has_features()) fail_absent("features", path());
  return n_features_;
}

const DerivativeSchema& Cache::derivative_schema() const {
  if (!has_force_derivatives()) fail_absent("force_derivatives", path());
  return *contents_.schema.derivatives;
}

DType Cache::feature_dtype() const {
  if (!has_features()) fail_absent("features", path());
  return contents_.features->values.dtype();
}

DType Cache::derivative_dtype(Column column) const {
  if (!has_force_derivatives()) fail_absent("force_derivatives", path());
  return contents_.derivatives->columns[static_cast<size_t>(column)].dtype();
}

void Cache::check_entry(int64_t entry) const {
  if (entry < 0 || entry >= n_entries()) throw std::out_of_range(cat(path(), ": entry ", entry, " of ", n_entries()));
}

std::vector<int64_t> Cache::entries_with_forces() const {
  std::vector<int64_t> found;
  for (int64_t entry = 0; entry < n_entries(); ++entry) {
    if (has_forces(entry)) found.push_back(entry);
  }
  return found;
}

int64_t Cache::n_atoms(int64_t entry) const {
  const int64_t found = contents_.n_atoms[static_cast<size_t>(entry)];
  if (found < 0)
    throw CorruptFileError(cat("n_atoms: expected a count, got ", found)).at_molecule(entry).in_file(path());
  return found;
}

void Cache::prefetch(int64_t entry) const {
  contents_.structures.prefetch(heap_, entry);
  if (has_features() && has_feature_row(entry)) contents_.features->values.prefetch(heap_, feature_row(entry));
}

Bytes Cache::structure(int64_t entry) const {
  return at_entry(path(), entry, [&] { return contents_.structures.row(heap_, entry); });
}

int64_t Cache::feature_row(int64_t entry) const {
  if (!has_features()) fail_absent("features", path());
  return feature_rows_[static_cast<size_t>(entry)];
}

int64_t Cache::derivative_row(int64_t entry) const {
  if (!has_force_derivatives()) fail_absent("force_derivatives", path());
  return derivative_rows_[static_cast<size_t>(entry)];
}

bool Cache::lacks_derivatives() const {
  for (size_t entry = 0; entry < derivative_rows_.size(); ++entry) {
    if (derivative_rows_[entry] < 0 && contents_.has_forces[entry] != 0) return true;
  }
  return false;
}

std::vector<int64_t> DerivativeRow::shape(Column column, const DerivativeSchema& schema) const {
  const bool is_radial = column <= Column::radial_neighbor_typespin;
  const int64_t rows = is_radial ? sizes.n_edges : sizes.n_triplets;
  switch (column) {
    case Column::radial_dG_drij:
      return {rows, schema.n_radial, 3};
    case Column::angular_grads_i:
    case Column::angular_grads_j:
    case Column::angular_grads_k:
      return {rows, schema.n_angular, 3};
    case Column::radial_neighbor_typespin:
    case Column::angular_triplet_typespin:
      return {schema.multi ? rows : 0};
    default:
      return {rows};
  }
}

std::optional<FeatureRow> Cache::features(int64_t entry) const {
  const int64_t row = feature_row(entry);
  if (row < 0) return std::nullopt;
  const int64_t atoms = n_atoms(entry);
  return at_entry(path(), entry, [&] {
    const auto& [index, values] = *contents_.features;
    const auto number = static_cast<size_t>(row);
    if (index.n_atoms[number] != atoms || index.n_features[number] != n_features_) {
      throw CorruptFileError(cat("index: expected ", atoms, " atoms and ", n_features_, " features, got ",
                                 index.n_atoms[number], " and ", index.n_features[number]))
          .at_field(values.name());
    }
    check_length(values, row, atoms, n_features_);
    return FeatureRow{atoms, n_features_, {values.row(heap_, row), values.dtype()}};
  });
}

DerivativeSizes Cache::sizes_of(int64_t row, int64_t entry) const {
  const auto& [index, columns] = *contents_.derivatives;
  const DerivativeSchema& schema = *contents_.schema.derivatives;
  const auto number = static_cast<size_t>(row);
  if (const int64_t atoms = n_atoms(entry); index.n_atoms[number] != atoms) {
    throw CorruptFileError(cat("index: expected ", atoms, " atoms, got ", index.n_atoms[number]))
        .at_field("force_derivatives");
  }
  const int64_t edges = index.n_edges[number];
  const int64_t triplets = index.n_triplets[number];
  const int64_t weights = schema.multi ? 1 : 0;
  const int64_t radial[] = {1, 1, 3 * schema.n_radial, weights};
  const int64_t angular[] = {1, 1, 1, 3 * schema.n_angular, 3 * schema.n_angular, 3 * schema.n_angular, weights};
  for (size_t i = 0; i < 4; ++i) check_length(columns[i], row, edges, radial[i]);
  for (size_t i = 0; i < 7; ++i) check_length(columns[4 + i], row, triplets, angular[i]);
  return {edges, triplets};
}

std::optional<DerivativeSizes> Cache::derivative_sizes(int64_t entry) const {
  const int64_t row = derivative_row(entry);
  if (row < 0) return std::nullopt;
  return at_entry(path(), entry, [&] { return sizes_of(row, entry); });
}

DerivativeRow Cache::read_derivatives(int64_t row, int64_t entry) const {
  DerivativeRow found;
  found.sizes = sizes_of(row, entry);
  const std::vector<VlenColumn>& columns = contents_.derivatives->columns;
  for (size_t i = 0; i < kNumberOfColumns; ++i) found.columns[i] = {columns[i].row(heap_, row), columns[i].dtype()};
  return found;
}

void Cache::check_indices(int64_t entry, const DerivativeRow& row) const {
  const std::vector<VlenColumn>& columns = contents_.derivatives->columns;
  at_entry(path(), entry, [&] {
    for (size_t i = 0; i < kNumberOfColumns; ++i) {
      if (kColumns[i].is_index) torch_cache::check_indices(columns[i], row.columns[i].bytes, n_atoms(entry));
    }
    return 0;
  });
}

std::optional<DerivativeRow> Cache::derivatives(int64_t entry) const {
  const int64_t row = derivative_row(entry);
  if (row < 0) return std::nullopt;
  return at_entry(path(), entry, [&] { return read_derivatives(row, entry); });
}

}  // namespace atompack::torch_cache
