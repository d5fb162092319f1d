// Encoding of a batch of molecules as entries: one heap collection each, ready to be written.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/torch_cache/rows/heap.h"
#include "formats/torch_cache/rows/tables.h"

namespace atompack::torch_cache {

// Values of all molecules of a batch, and flags for those that have one; no values: none has.
template <typename T>
struct LabelColumn {
  const T* values = nullptr;
  const bool* present = nullptr;

  bool has(size_t molecule) const { return values != nullptr && present[molecule]; }
};

// Floating-point values of all rows of a batch, `row` numbers each.
struct ValueColumn {
  const std::byte* values = nullptr;
  DType dtype = DType::float64;
  size_t row = 1;
};

// Derivatives as in a batch: atoms are numbered within the batch.
struct DerivativeColumns {
  std::span<const int64_t> edge_ptr, triplet_ptr;  // (B + 1,): the first row of each molecule
  const int64_t *radial_center = nullptr, *radial_neighbor = nullptr;
  ValueColumn radial_gradients, radial_typespin;  // no typespin values for a single species
  const int64_t *angular_center = nullptr, *angular_j = nullptr, *angular_k = nullptr;
  std::array<ValueColumn, 3> angular_gradients;  // with respect to i, j, k
  ValueColumn angular_typespin;
};

struct EntryColumns {
  std::span<const int64_t> ptr;                   // (B + 1,): the first atom of each molecule
  const double* positions = nullptr;              // (N, 3)
  std::span<const int64_t> atomic_numbers;        // (N,)
  std::span<const std::string> symbols;           // by atomic number
  LabelColumn<double> energy, forces, cell;       // (B,), (N, 3), (B, 3, 3)
  LabelColumn<bool> pbc;                          // (B, 3)
  std::vector<std::optional<std::string>> names;  // empty: no molecule has one
  std::optional<ValueColumn> features;            // of all atoms
  std::optional<DerivativeColumns> derivatives;   // of molecules with forces
  DType storage = DType::float64;                 // of features and derivatives in the file
};

struct EncodedEntries {
  std::vector<std::byte> bytes;      // all collections
  std::vector<EntryRecord> records;  // addresses count from the first byte
};

// Throws FieldError for an atomic number without symbol, and for more rows than the format can count.
EncodedEntries encode_entries(const EntryColumns& columns);

}  // namespace atompack::torch_cache
