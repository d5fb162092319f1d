// Contents of a cache file that are read on opening.
#pragma once

#include "formats/torch_cache/rows/heap.h"
#include "formats/torch_cache/schema.h"
#include "io/file.h"
#include "model/fields.h"

namespace atompack::torch_cache {

// Columns of derivatives, in the order of FORMAT.md#force-derivatives.
enum class Column : uint8_t {
#define ATOMPACK_DERIVATIVE(key, level, is_atom_index) key,
#include "model/fields.def"
};
inline constexpr size_t kNumberOfColumns = kDerivativeFields.size();

// Location of a column in the section, and its type.
struct ColumnPlace {
  const char *group, *name;
  const char* key;  // name of the column in a batch; group and dataset name
  bool is_index;
};
inline constexpr ColumnPlace kColumns[kNumberOfColumns] = {
#define ATOMPACK_DERIVATIVE(key, level, is_atom_index)                                                   \
  Level::level == Level::edge ? ColumnPlace{"radial", &#key[sizeof("radial_") - 1], #key, is_atom_index} \
                              : ColumnPlace{"angular", &#key[sizeof("angular_") - 1], #key, is_atom_index},
#include "model/fields.def"
};

constexpr const ColumnPlace& place_of(Column column) { return kColumns[static_cast<size_t>(column)]; }

// Index tables as stored, one row per entry.
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

// Throws CorruptFileError or UnsupportedFormatError. The bytes are those of a whole file.
Contents read_contents(Bytes file);

}  // namespace atompack::torch_cache
