#include "formats/torch_cache/build/encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/torch_cache/structure.h"
#include "model/element.h"

namespace atompack::torch_cache {
namespace {

struct Rows {
  size_t first, n;
};

Rows rows_of(std::span<const int64_t> ptr, size_t molecule) {
  return {static_cast<size_t>(ptr[molecule]), static_cast<size_t>(ptr[molecule + 1] - ptr[molecule])};
}

template <typename T>
bool has(const std::optional<LabelColumn<T>>& label, size_t molecule) {
  return label && label->present[molecule];
}

// A cast may round, but must not turn a finite number into infinity.
void check_fits(const double* values, size_t n) {
  constexpr double kMax = std::numeric_limits<float>::max();
  for (size_t i = 0; i < n; ++i) {
    if (std::isfinite(values[i]) && std::isinf(static_cast<float>(values[i]))) {
      throw FieldError(cat("values: expected at most ", kMax, ", which float32 holds, got ", values[i],
                           ": build the cache in float64"));
    }
  }
}

// `first_atom` is subtracted from the numbers of atoms.
Payload values(const ValueColumn& column, const Rows& rows, DType storage, int64_t first_atom = 0) {
  if (column.values == nullptr) return {};
  const std::byte* const first = column.values + rows.first * column.row * item_bytes(column.dtype);
  if (column.dtype == DType::int64) return {first, rows.n, DType::int64, DType::int64, first_atom};
  if (column.dtype == DType::float64 && storage == DType::float32) {
    check_fits(reinterpret_cast<const double*>(first), rows.n * column.row);
  }
  return {first, rows.n * column.row, column.dtype, storage};
}

// In the order of the file's datasets.
void append_derivatives(const DerivativeColumns& derivatives, size_t molecule, int64_t first_atom, DType storage,
                        std::vector<Payload>& payloads) {
  for (size_t i = 0; i < kDerivativeFields.size(); ++i) {
    const bool is_edge = kDerivativeFields[i].level == Level::edge;
    const Rows rows = rows_of(is_edge ? derivatives.edge_ptr : derivatives.triplet_ptr, molecule);
    payloads.push_back(values(derivatives.columns[i], rows, storage, first_atom));
  }
}

std::string checked_symbol(int64_t number) {
  if (number < 0 || number > kLastElement) {
    throw FieldError(cat("species: expected an atomic number from 0 to ", +kLastElement, ", got ", number))
        .at_field("atomic_numbers");
  }
  return std::string(symbol_of(static_cast<uint8_t>(number)));
}

// Index tables count rows as int32, and references count elements as uint32.
void check_counts(std::span<const Payload> payloads) {
  constexpr size_t kMax = std::numeric_limits<int32_t>::max();
  for (const Payload& payload : payloads) {
    if (payload.count > kMax) throw FieldError(cat("entry: expected at most ", kMax, " numbers, got ", payload.count));
  }
}

Structure structure_of(const EntryColumns& columns, size_t molecule) {
  const Rows atoms = rows_of(columns.ptr, molecule);
  const auto rows_of_three = [&](std::span<const double> all) {
    const auto own = all.subspan(3 * atoms.first, 3 * atoms.n);
    return std::vector<double>(own.begin(), own.end());
  };
  Structure structure;
  structure.positions = rows_of_three(columns.positions);
  for (const int64_t number : columns.atomic_numbers.subspan(atoms.first, atoms.n)) {
    structure.species.push_back(checked_symbol(number));
  }
  if (has(columns.energy, molecule)) structure.energy = columns.energy->values[molecule];
  if (has(columns.forces, molecule)) structure.forces = rows_of_three(columns.forces->values);
  if (has(columns.cell, molecule)) {
    std::ranges::copy(columns.cell->values.subspan(9 * molecule, 9), structure.cell.emplace().begin());
  }
  if (has(columns.pbc, molecule)) {
    std::ranges::copy(columns.pbc->values.subspan(3 * molecule, 3), structure.pbc.emplace().begin());
  }
  if (!columns.names.empty()) structure.name = columns.names[molecule];
  return structure;
}

EntryRecord record_of(const EntryColumns& columns, size_t molecule) {
  EntryRecord record;
  record.n_atoms = static_cast<int32_t>(columns.ptr[molecule + 1] - columns.ptr[molecule]);
  const bool has_energy = has(columns.energy, molecule);
  record.energy = has_energy ? columns.energy->values[molecule] : std::numeric_limits<double>::quiet_NaN();
  record.has_forces = has(columns.forces, molecule);
  if (!columns.names.empty()) record.name = columns.names[molecule].value_or("");
  if (!columns.derivatives || !record.has_forces) return record;
  record.has_derivatives = true;
  record.n_edges = static_cast<int64_t>(rows_of(columns.derivatives->edge_ptr, molecule).n);
  record.n_triplets = static_cast<int64_t>(rows_of(columns.derivatives->triplet_ptr, molecule).n);
  return record;
}

// The size of structures is estimated; the vector grows little beyond this.
size_t max_bytes_of(const EntryColumns& columns) {
  const size_t n_molecules = columns.ptr.size() - 1, n_atoms = columns.atomic_numbers.size();
  size_t bytes = n_molecules * 8192 + n_atoms * 128;
  if (columns.features.values != nullptr) bytes += n_atoms * columns.features.row * sizeof(double);
  if (!columns.derivatives) return bytes;
  const DerivativeColumns& derivatives = *columns.derivatives;
  for (size_t i = 0; i < kDerivativeFields.size(); ++i) {
    const bool is_edge = kDerivativeFields[i].level == Level::edge;
    const auto n_rows = static_cast<size_t>((is_edge ? derivatives.edge_ptr : derivatives.triplet_ptr).back());
    bytes += n_rows * derivatives.columns[i].row * sizeof(double);
  }
  return bytes;
}

}  // namespace

EncodedEntries encode_entries(const EntryColumns& columns) {
  EncodedEntries encoded;
  encoded.bytes.reserve(max_bytes_of(columns));
  std::vector<Payload> payloads;
  for (size_t molecule = 0; molecule + 1 < columns.ptr.size(); ++molecule) {
    const std::vector<std::byte> structure = encode_structure(structure_of(columns, molecule));
    EntryRecord& record = encoded.records.emplace_back(record_of(columns, molecule));
    record.address = encoded.bytes.size();
    record.structure_bytes = static_cast<uint32_t>(structure.size());

    payloads.assign(1, {structure.data(), structure.size(), DType::uint8, DType::uint8});
    payloads.push_back(values(columns.features, rows_of(columns.ptr, molecule), columns.storage));
    if (record.has_derivatives) {
      append_derivatives(*columns.derivatives, molecule, columns.ptr[molecule], columns.storage, payloads);
    }
    check_counts(payloads);
    append_collection(payloads, encoded.bytes);
  }
  return encoded;
}

}  // namespace atompack::torch_cache
