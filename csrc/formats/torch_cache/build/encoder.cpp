#include "formats/torch_cache/build/encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/torch_cache/structure.h"

namespace atompack::torch_cache {
namespace {

struct Rows {
  size_t first, n;
};

Rows rows_of(std::span<const int64_t> ptr, size_t molecule) {
  return {static_cast<size_t>(ptr[molecule]), static_cast<size_t>(ptr[molecule + 1] - ptr[molecule])};
}

Payload indices(const int64_t* column, const Rows& rows, int64_t first_atom) {
  return {reinterpret_cast<const std::byte*>(column + rows.first), rows.n, DType::int64, DType::int64, first_atom};
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

Payload values(const ValueColumn& column, const Rows& rows, DType storage) {
  if (column.values == nullptr) return {};
  const std::byte* const first = column.values + rows.first * column.row * item_bytes(column.dtype);
  if (column.dtype == DType::float64 && storage == DType::float32) {
    check_fits(reinterpret_cast<const double*>(first), rows.n * column.row);
  }
  return {first, rows.n * column.row, column.dtype, storage};
}

// In the order of the file's datasets.
void append_derivatives(const DerivativeColumns& columns, size_t molecule, int64_t first_atom, DType storage,
                        std::vector<Payload>& payloads) {
  const Rows edges = rows_of(columns.edge_ptr, molecule), triplets = rows_of(columns.triplet_ptr, molecule);
  payloads.push_back(indices(columns.radial_center, edges, first_atom));
  payloads.push_back(indices(columns.radial_neighbor, edges, first_atom));
  payloads.push_back(values(columns.radial_gradients, edges, storage));
  payloads.push_back(values(columns.radial_typespin, edges, storage));
  payloads.push_back(indices(columns.angular_center, triplets, first_atom));
  payloads.push_back(indices(columns.angular_j, triplets, first_atom));
  payloads.push_back(indices(columns.angular_k, triplets, first_atom));
  for (const ValueColumn& gradients : columns.angular_gradients) {
    payloads.push_back(values(gradients, triplets, storage));
  }
  payloads.push_back(values(columns.angular_typespin, triplets, storage));
}

const std::string& symbol_of(std::span<const std::string> symbols, int64_t number) {
  if (number < 0 || number >= std::ssize(symbols)) {
    throw FieldError(cat("species: expected an atomic number from 0 to ", std::ssize(symbols) - 1, ", got ", number))
        .at_field("atomic_numbers");
  }
  return symbols[static_cast<size_t>(number)];
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
  const auto rows_of_three = [&](const double* from) {
    return std::vector<double>(from + 3 * atoms.first, from + 3 * (atoms.first + atoms.n));
  };
  Structure structure;
  structure.positions = rows_of_three(columns.positions);
  for (const int64_t number : columns.atomic_numbers.subspan(atoms.first, atoms.n)) {
    structure.species.push_back(symbol_of(columns.symbols, number));
  }
  if (columns.energy.has(molecule)) structure.energy = columns.energy.values[molecule];
  if (columns.forces.has(molecule)) structure.forces = rows_of_three(columns.forces.values);
  if (columns.cell.has(molecule)) std::copy_n(columns.cell.values + 9 * molecule, 9, structure.cell.emplace().begin());
  if (columns.pbc.has(molecule)) std::copy_n(columns.pbc.values + 3 * molecule, 3, structure.pbc.emplace().begin());
  if (!columns.names.empty()) structure.name = columns.names[molecule];
  return structure;
}

EntryRecord record_of(const EntryColumns& columns, size_t molecule) {
  EntryRecord record;
  record.n_atoms = static_cast<int32_t>(columns.ptr[molecule + 1] - columns.ptr[molecule]);
  const bool has_energy = columns.energy.has(molecule);
  record.energy = has_energy ? columns.energy.values[molecule] : std::numeric_limits<double>::quiet_NaN();
  record.has_forces = columns.forces.has(molecule);
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
  if (columns.features) bytes += n_atoms * columns.features->row * sizeof(double);
  if (!columns.derivatives) return bytes;
  const DerivativeColumns& rows = *columns.derivatives;
  bytes += static_cast<size_t>(rows.edge_ptr.back()) * (3 + rows.radial_gradients.row) * sizeof(double);
  return bytes +
         static_cast<size_t>(rows.triplet_ptr.back()) * (4 + 3 * rows.angular_gradients[0].row) * sizeof(double);
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
    payloads.push_back(columns.features ? values(*columns.features, rows_of(columns.ptr, molecule), columns.storage)
                                        : Payload{});
    if (record.has_derivatives) {
      append_derivatives(*columns.derivatives, molecule, columns.ptr[molecule], columns.storage, payloads);
    }
    check_counts(payloads);
    append_collection(payloads, encoded.bytes);
  }
  return encoded;
}

}  // namespace atompack::torch_cache
