// Everything that is read of a cache file at opening. HDF5 is used here alone, and closed again.
#pragma once

#include "formats/torch_cache/rows/vlen_column.h"
#include "formats/torch_cache/schema.h"
#include "io/file.h"

namespace atompack::torch_cache {

// The eleven columns of derivatives, in the order of FORMAT.md#force-derivatives.
enum class Column : uint8_t {
  radial_center_idx,
  radial_neighbor_idx,
  radial_dG_drij,
  radial_neighbor_typespin,
  angular_center_idx,
  angular_neighbor_j_idx,
  angular_neighbor_k_idx,
  angular_grads_i,
  angular_grads_j,
  angular_grads_k,
  angular_triplet_typespin,
};
inline constexpr size_t kNumberOfColumns = 11;

// Where a column lies in the section, and what it holds.
struct ColumnPlace {
  const char *group, *name;
  const char* key;  // what the column is called in a batch
  bool is_index;
};
inline constexpr ColumnPlace kColumns[kNumberOfColumns] = {
    {"radial", "center_idx", "radial_center_idx", true},
    {"radial", "neighbor_idx", "radial_neighbor_idx", true},
    {"radial", "dG_drij", "radial_dG_drij", false},
    {"radial", "neighbor_typespin", "radial_neighbor_typespin", false},
    {"angular", "center_idx", "angular_center_idx", true},
    {"angular", "neighbor_j_idx", "angular_neighbor_j_idx", true},
    {"angular", "neighbor_k_idx", "angular_neighbor_k_idx", true},
    {"angular", "grads_i", "angular_grads_i", false},
    {"angular", "grads_j", "angular_grads_j", false},
    {"angular", "grads_k", "angular_grads_k", false},
    {"angular", "triplet_typespin", "angular_triplet_typespin", false},
};

constexpr const ColumnPlace& place_of(Column column) { return kColumns[static_cast<size_t>(column)]; }

// One row each of the index tables, as stored.
struct FeatureIndex {
  std::vector<int64_t> cache_row, entry_idx, n_atoms, n_features;
};
struct DerivativeIndex {
  std::vector<int64_t> cache_row, entry_idx, n_atoms, n_edges, n_triplets;
};

struct FeatureSection {
  FeatureIndex index;
  VlenColumn values;
};
struct DerivativeSection {
  DerivativeIndex index;
  std::vector<VlenColumn> columns;  // kNumberOfColumns
};

struct Contents {
  uint64_t base = 0;  // of addresses
  Info info;
  Schema schema;
  VlenColumn structures;
  std::vector<int64_t> n_atoms;
  std::vector<double> energy;
  std::vector<uint8_t> has_forces;
  std::optional<FeatureSection> features;
  std::optional<DerivativeSection> derivatives;
};

// Texts of one entry, as stored: each may be empty.
struct EntryLabels {
  std::string display_name, name, source_id, source_kind;
  int64_t frame_idx = 0;
};

// Throws CorruptFileError, UnsupportedFormatError, or IoError if another file stands at the path than the identity
// says.
// `bytes` are those of the file.
Contents read_contents(const std::string& path, const io::FileIdentity& identity, Bytes bytes);
// Of the entries [first, first + count), which the file has.
std::vector<EntryLabels> read_labels(const std::string& path, const io::FileIdentity& identity, Bytes bytes,
                                     int64_t first, int64_t count);

}  // namespace atompack::torch_cache
