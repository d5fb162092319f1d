#include "formats/torch_cache/source.h"

#include <algorithm>
#include <cmath>

#include "base/doubles.h"
#include "formats/torch_cache/structure.h"
#include "model/element.h"

namespace atompack::torch_cache {
namespace {

// Positions of the labels in the schema of whole entries.
enum Label : int32_t { kEnergy, kForces, kCell, kPbc, kName };

FieldType label_type(Level level, DType dtype) { return {level, ValueKind::numeric, dtype}; }

Level level_of(Column column) { return column < Column::angular_center_idx ? Level::edge : Level::triplet; }

bool is_typespin(Column column) {
  return column == Column::radial_neighbor_typespin || column == Column::angular_triplet_typespin;
}

std::vector<uint8_t> numbers_of(const std::vector<std::string>& species) {
  std::vector<uint8_t> numbers;
  for (size_t atom = 0; atom < species.size(); ++atom) {
    const std::optional<uint8_t> number = atomic_number(species[atom]);
    if (!number) {
      throw CorruptFileError(
          cat("species: expected the symbol of an element, got '", species[atom], "' for atom ", atom))
          .at_field("atomic_numbers");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

template <typename T>
Bytes bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

constexpr double kFloat32 = 1e-6, kDecimals = 1e-9;  // rounding to float32, and of numbers in texts

bool are_near(std::span<const double> some, std::span<const double> others, double tolerance) {
  return std::ranges::equal(
      some, others, [&](double a, double b) { return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(a)); });
}

// Labels that are not symbols of elements are accepted for any.
bool are_of(Bytes numbers, const std::vector<std::string>& species) {
  return std::ranges::equal(numbers, species, [](std::byte number, const std::string& label) {
    const std::optional<uint8_t> expected = atomic_number(label);
    return !expected || *expected == static_cast<uint8_t>(number);
  });
}

bool has_geometry_of(const Structure& structure, std::span<const double> positions, const Likeness& likeness) {
  return are_near(structure.positions, positions, kFloat32) &&
         (!structure.cell || !likeness.cell || are_near(*structure.cell, *likeness.cell, kFloat32));
}

std::string_view label_of(std::byte number) {
  const auto known = static_cast<uint8_t>(number);
  return known <= kLastElement ? symbol_of(known) : "?";
}

}  // namespace

CacheSource::CacheSource(std::shared_ptr<const Cache> cache, EntryParts parts)
    : cache_(std::move(cache)), parts_(parts) {
  schema_.positions = DType::float64;
  if (parts_ == EntryParts::whole) {  // in the order of Label
    declare("energy", label_type(Level::molecule, DType::float64), {});
    declare("forces", label_type(Level::atom, DType::float64), {3});
    declare("cell", label_type(Level::molecule, DType::float64), {3, 3});
    declare("pbc", label_type(Level::molecule, DType::boolean), {3});
    declare("name", {Level::molecule, ValueKind::string, DType::uint8}, {});
  }
  if (cache_->has_features()) declare_features();
  if (cache_->has_force_derivatives()) declare_derivatives();
}

int32_t CacheSource::declare(std::string_view key, const FieldType& type, const Shape& row_shape) {
  schema_.fields.push_back({Scope::builtin, std::string(key), type, row_shape});
  return static_cast<int32_t>(std::ssize(schema_.fields)) - 1;
}

void CacheSource::declare_features() {
  features_ = declare("features", label_type(Level::atom, cache_->feature_dtype()), {cache_->n_features()});
}

void CacheSource::declare_derivatives() {
  const DerivativeSchema& schema = cache_->derivative_schema();
  for (size_t i = 0; i < kNumberOfColumns; ++i) {
    const auto column = static_cast<Column>(i);
    if (is_typespin(column) && !schema.multi) continue;
    const Level level = level_of(column);
    FieldType type = label_type(level, cache_->derivative_dtype(column));
    type.is_atom_index = place_of(column).is_index;
    Shape row_shape;
    if (!type.is_atom_index && !is_typespin(column)) {
      row_shape = {level == Level::edge ? schema.n_radial : schema.n_angular, 3};
    }
    derivatives_.push_back({column, declare(place_of(column).key, type, row_shape)});
  }
}

MoleculeExtent CacheSource::extent(int64_t entry) const {
  Cache::forget_rows();
  return located(entry, [&] {
    MoleculeExtent extent{cache_->n_atoms(entry), 0, 0};
    if (cache_->has_features()) {
      extent.decoded_bytes += extent.n_atoms * cache_->n_features() * static_cast<int64_t>(sizeof(double));
    }
    if (cache_->has_force_derivatives()) {
      if (const auto sizes = cache_->derivative_sizes(entry)) {
        const DerivativeSchema& schema = cache_->derivative_schema();
        extent.n_edges = sizes->n_edges;
        extent.n_triplets = sizes->n_triplets;
        extent.decoded_bytes += 8 * (sizes->n_edges * (3 + 3 * schema.n_radial));
        extent.decoded_bytes += 8 * (sizes->n_triplets * (4 + 9 * schema.n_angular));
      }
    }
    if (parts_ == EntryParts::whole) extent.decoded_bytes += static_cast<int64_t>(cache_->structure(entry).size());
    extent.work = extent.decoded_bytes;
    return extent;
  });
}

void CacheSource::visit_label(int32_t declaration, Bytes data, MoleculeVisitor& visitor) const {
  const FieldDeclaration& field = schema_.fields[static_cast<size_t>(declaration)];
  visitor.field({field.scope, field.key, field.type, *field.row_shape, declaration}, data);
}

void CacheSource::visit_structure(int64_t entry, MoleculeVisitor& visitor) const {
  // What is passed on has to last until the thread visits another molecule.
  thread_local StructureDecoder decoder;
  thread_local Structure structure;
  thread_local std::vector<uint8_t> numbers;
  thread_local double energy = 0;
  thread_local std::array<bool, 3> pbc{};
  structure = decoder.decode(cache_->structure(entry));
  if (static_cast<int64_t>(structure.n_atoms()) != cache_->n_atoms(entry)) {
    throw CorruptFileError(
        cat("structure: expected ", cache_->n_atoms(entry), " atoms as in /entries/meta, got ", structure.n_atoms()));
  }
  numbers = numbers_of(structure.species);
  visitor.geometry({cache_->n_atoms(entry), DType::float64, bytes_of(structure.positions), bytes_of(numbers)});

  energy = cache_->energy(entry);
  if (!std::isnan(energy)) visit_label(kEnergy, std::as_bytes(std::span(&energy, 1)), visitor);
  if (structure.forces) visit_label(kForces, bytes_of(*structure.forces), visitor);
  if (structure.cell) {
    // A cell without flags is periodic in all directions.
    pbc = structure.pbc.value_or(std::array{true, true, true});
    visit_label(kCell, bytes_of(*structure.cell), visitor);
    visit_label(kPbc, bytes_of(pbc), visitor);
  } else if (structure.pbc) {
    visit_label(kPbc, bytes_of(*structure.pbc), visitor);
  }
  if (structure.name) visit_label(kName, as_bytes(*structure.name), visitor);
}

// Other programs may wrap or round positions, but leave energies as they are.
void CacheSource::check_likeness(int64_t entry, const Likeness& likeness) const {
  thread_local StructureDecoder decoder;
  thread_local std::vector<double> positions;
  thread_local std::vector<std::string_view> species;
  Cache::forget_rows();
  const Geometry& geometry = likeness.geometry;
  positions.resize(static_cast<size_t>(3 * geometry.n_atoms));
  load_doubles(positions.data(), geometry.positions.data(), geometry.positions_dtype, positions.size());
  species.resize(geometry.numbers.size());
  std::ranges::transform(geometry.numbers, species.begin(), label_of);
  const Bytes pickle = cache_->structure(entry);
  if (holds_exactly(pickle, positions, species, likeness.cell)) return;
  const Structure structure = located(entry, [&] { return decoder.decode(pickle); });
  const auto refuse = [&](std::string_view what) {
    throw FieldError(cat("cache: expected the ", what, " of entry ", entry, " of ", cache_->path(),
                         ", got others: a cache fits the molecules that it was made of, in their order; build_cache "
                         "makes one of these"));
  };
  if (!are_of(geometry.numbers, structure.species)) refuse("elements");
  if (has_geometry_of(structure, positions, likeness)) return;
  if (is_own_pickle(pickle)) refuse("positions and cell");
  const double energy = cache_->energy(entry);
  if (!likeness.energy || !are_near({&energy, 1}, {&*likeness.energy, 1}, kDecimals)) refuse("positions or energy");
}

void CacheSource::visit(int64_t entry, Bytes, MoleculeVisitor& visitor) const {
  Cache::forget_rows();
  located(entry, [&] {
    if (parts_ == EntryParts::whole) visit_structure(entry, visitor);
    if (features_ >= 0) {
      if (const auto row = cache_->features(entry)) visit_label(features_, row->values.bytes, visitor);
    }
    if (derivatives_.empty()) return;
    if (const auto row = cache_->derivatives(entry)) {
      for (const CachedColumn& cached : derivatives_) {
        visit_label(cached.declaration, (*row)[cached.column].bytes, visitor);
      }
    }
  });
}

}  // namespace atompack::torch_cache
