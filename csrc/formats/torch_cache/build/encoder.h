// Encoding of a batch of molecules as entries: one heap collection each, ready to be written.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/torch_cache/rows/heap.h"
#include "formats/torch_cache/rows/tables.h"
#include "model/fields.h"

namespace atompack::torch_cache {

// Values of all molecules of a batch, and flags for those that have one.
template <typename T>
struct LabelColumn {
  std::span<const T> values;
  std::span<const bool> present;
};

// Numbers of all rows of a batch, `row` numbers each; no values: none is stored.
struct ValueColumn {
  const std::byte* values = nullptr;
  DType dtype = DType::float64;
  size_t row = 1;
};

// Derivatives as in a batch: atoms are numbered within the batch.
struct DerivativeColumns {
  std::span<const int64_t> edge_ptr, triplet_ptr;             // (B + 1,): the first row of each molecule
  std::array<ValueColumn, kDerivativeFields.size()> columns;  // no typespin for a single species
};

struct EntryColumns {
  std::span<const int64_t> ptr;                             // (B + 1,): the first atom of each molecule
  std::span<const double> positions;                        // (N, 3)
  std::span<const int64_t> atomic_numbers;                  // (N,)
  std::optional<LabelColumn<double>> energy, forces, cell;  // (B,), (N, 3), (B, 3, 3)
  std::optional<LabelColumn<bool>> pbc;                     // (B, 3)
  std::vector<std::optional<std::string>> names;            // empty: no molecule has one
  ValueColumn features;                                     // of all atoms
  std::optional<DerivativeColumns> derivatives;             // of molecules with forces
  DType storage = DType::float64;                           // of features and derivatives in the file
};

struct EncodedEntries {
  std::vector<std::byte> bytes;      // all collections
  std::vector<EntryRecord> records;  // addresses count from the first byte
};

// Throws FieldError for an atomic number without symbol, and for more rows than the format can count.
EncodedEntries encode_entries(const EntryColumns& columns);

}  // namespace atompack::torch_cache
