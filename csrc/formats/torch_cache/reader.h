// Reader of an HDF5 training database of aenet-python with its feature cache: schema version 2, legacy 1, or none.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "formats/torch_cache/hdf5/contents.h"
#include "io/local_file.h"

namespace atompack::torch_cache {

// Checks of the rows of sections: the entry of each row, and its length by the index.

// Returns the row of each entry, -1 if it is missing; of several the last one. Throws CorruptFileError unless row r has
// cache_row r and every entry exists.
std::vector<int64_t> rows_by_entry(const std::string& section, std::span<const int64_t> cache_row,
                                   std::span<const int64_t> entry_idx, int64_t n_entries);

// Throws CorruptFileError unless row `row` has `n_rows` times `row_length` elements; both fit in 32 bits.
void check_length(const VlenColumn& column, int64_t row, int64_t n_rows, int64_t row_length);

// Throws CorruptFileError unless every index of the row is from 0 to n_atoms - 1.
void check_indices(const VlenColumn& column, Bytes row, int64_t n_atoms);

struct OpenOptions {
  io::Access access = io::Access::automatic;
  bool populate = false;
  // If set, another file at the path is an IoError (ESTALE).
  std::optional<io::FileIdentity> expected;
  // Path that errors name, of which the file is a copy; empty: that of the file.
  std::string name = {};
};

// Views of the mapping, unaligned, in C order; as long as the shapes require. With Access::read: views of memory that
// is kept until the thread calls forget_rows().
struct View {
  Bytes bytes;
  DType dtype = DType::float64;  // of each column as stored, regardless of storage_dtype
};

struct FeatureRow {
  int64_t n_atoms = 0;
  int64_t n_features = 0;
  View values;  // (n_atoms, n_features)
};

struct DerivativeSizes {
  int64_t n_edges = 0;
  int64_t n_triplets = 0;
};

// Indices are int64 or int32, from 0 to n_atoms - 1: radial_center_idx, radial_neighbor_idx (n_edges,);
// angular_center_idx, angular_neighbor_j_idx, angular_neighbor_k_idx (n_triplets,). Floats: radial_dG_drij (n_edges,
// n_radial, 3), angular_grads_{i,j,k} (n_triplets, n_angular, 3), radial_neighbor_typespin (n_edges,) and
// angular_triplet_typespin (n_triplets,), both empty unless multi.
struct DerivativeRow {
  DerivativeSizes sizes;
  std::array<View, kNumberOfColumns> columns;
  const View& operator[](Column column) const { return columns[static_cast<size_t>(column)]; }
  std::vector<int64_t> shape(Column column, const DerivativeSchema& schema) const;
};

// HDF5 is used only in the constructor; afterwards there is just the mapping, so that a forked process can continue
// reading. Thread-safe: immutable after construction. Entries are numbered from 0; `entry` must be in [0, n_entries()).
// Damage inside one row is an error of that row alone. Others may overwrite the file while it is mapped: callers that
// rely on indices being in range must check the copy that they use.
class Cache {
 public:
  // Throws IoError, CorruptFileError, or UnsupportedFormatError.
  explicit Cache(std::string path, const OpenOptions& options = {});

  const std::string& path() const { return file_.path(); }
  const io::FileIdentity& identity() const { return identity_; }
  const Info& info() const { return contents_.info; }

  int64_t n_entries() const { return std::ssize(contents_.n_atoms); }
  // Throws std::out_of_range if there is no such entry.
  void check_entry(int64_t entry) const;
  bool is_legacy() const { return contents_.schema.is_legacy; }
  bool has_features() const { return contents_.features.has_value(); }
  bool has_force_derivatives() const { return contents_.derivatives.has_value(); }

  // nullopt for a file without a cache.
  const std::optional<Descriptor>& descriptor() const { return contents_.schema.descriptor; }
  std::optional<DType> storage_dtype() const { return contents_.schema.storage_dtype; }
  // Columns of a row of features; FieldError without that section.
  int64_t n_features() const;
  // FieldError without that section.
  const DerivativeSchema& derivative_schema() const;
  DType feature_dtype() const;
  DType derivative_dtype(Column column) const;

  // Called once before a batch is read: CorruptFileError if the file shrank.
  void prepare() const { file_.check_not_shrunk(); }
  static void forget_rows() { GlobalHeap::forget_rows(); }

  int64_t n_atoms(int64_t entry) const;                                   // CorruptFileError if negative
  std::span<const int64_t> n_atoms() const { return contents_.n_atoms; }  // as stored
  // Hint: starts fetching the structure and the features of an entry, if it was read before.
  void prefetch(int64_t entry) const;
  double energy(int64_t entry) const { return contents_.energy[static_cast<size_t>(entry)]; }  // NaN: absent
  bool has_forces(int64_t entry) const { return contents_.has_forces[static_cast<size_t>(entry)] != 0; }
  std::vector<int64_t> entries_with_forces() const;
  Bytes structure(int64_t entry) const;  // a pickle

  // False if the entry has no row; FieldError without the section.
  bool has_feature_row(int64_t entry) const { return feature_row(entry) >= 0; }
  // True if an entry has no row of features, or one with forces none of derivatives. False without the section.
  bool lacks_features() const { return std::ranges::find(feature_rows_, -1) != feature_rows_.end(); }
  bool lacks_derivatives() const;
  std::optional<FeatureRow> features(int64_t entry) const;
  // From the index, checked against the lengths of the rows; reads no row.
  std::optional<DerivativeSizes> derivative_sizes(int64_t entry) const;
  // Indices are not checked: callers check the copy that they use, or call check_indices().
  std::optional<DerivativeRow> derivatives(int64_t entry) const;
  // Throws CorruptFileError unless every index of the row is an atom of the entry.
  void check_indices(int64_t entry, const DerivativeRow& row) const;

 private:
  int64_t feature_row(int64_t entry) const;
  int64_t derivative_row(int64_t entry) const;
  void check_claims() const;
  DerivativeSizes sizes_of(int64_t row, int64_t entry) const;
  DerivativeRow read_derivatives(int64_t row, int64_t entry) const;

  std::string place_;
  io::FileIdentity identity_;
  io::MappedFile file_;
  std::unique_ptr<const io::ByteSource> rows_;  // set if rows are read by pread
  Contents contents_;
  GlobalHeap heap_;
  std::vector<int64_t> feature_rows_, derivative_rows_;  // per entry, -1: none
  int64_t n_features_ = 0;
};

}  // namespace atompack::torch_cache
