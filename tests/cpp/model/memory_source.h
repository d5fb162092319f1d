// Molecules in memory, for the tests of what reads any source.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/molecule_source.h"

namespace atompack::test {

// A value of a molecule: rows of numbers, or a text.
struct MemoryField {
  Scope scope = Scope::builtin;
  std::string key;
  FieldType type;
  Shape row_shape;
  std::vector<double> numbers = {};
  std::string text = {};
  bool is_damaged = false;

  std::vector<std::byte> stored() const {
    std::vector<std::byte> bytes;
    const auto add = [&](const auto& value) {
      const auto* const from = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), from, from + sizeof(value));
    };
    if (type.kind == ValueKind::string) {
      for (const char c : text) add(c);
    }
    for (const double number : numbers) {
      switch (type.dtype) {
        case DType::float32:
          add(static_cast<float>(number));
          break;
        case DType::int64:
          add(static_cast<int64_t>(number));
          break;
        case DType::int32:
          add(static_cast<int32_t>(number));
          break;
        case DType::boolean:
          add(number != 0);
          break;
        default:
          add(number);
      }
    }
    return bytes;
  }
};

struct MemoryMolecule {
  std::vector<double> positions;
  std::vector<uint8_t> numbers;
  std::vector<MemoryField> fields;
  int64_t n_edges = 0, n_triplets = 0;
  int32_t schema = 0;

  int64_t n_atoms() const { return std::ssize(numbers); }
  const MemoryField* find(Scope scope, std::string_view key) const {
    const auto found = std::ranges::find_if(
        fields, [&](const MemoryField& field) { return field.scope == scope && field.key == key; });
    return found == fields.end() ? nullptr : &*found;
  }
};

class MemorySource final : public MoleculeSource {
 public:
  explicit MemorySource(std::vector<MemoryMolecule> molecules, std::vector<MoleculeSchema> schemas, int64_t work = 100)
      : molecules_(std::move(molecules)), schemas_(std::move(schemas)), work_(work) {}

  const MemoryMolecule& molecule(int64_t index) const { return molecules_[static_cast<size_t>(index)]; }

  int64_t size() const override { return std::ssize(molecules_); }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override { return molecule(index).schema; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override {
    const MemoryMolecule& of = molecule(index);
    return {of.n_atoms(), 0, work_, of.n_edges, of.n_triplets};
  }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }
  void visit(int64_t index, Bytes, MoleculeVisitor& visitor) const override {
    // Valid until the thread visits another molecule.
    thread_local std::vector<std::vector<std::byte>> stored;
    static const CorruptFileError fault("value: damaged");
    const MemoryMolecule& of = molecule(index);
    const MoleculeSchema& schema = schemas_[static_cast<size_t>(of.schema)];
    stored = {MemoryField{.key = "",
                          .type = {Level::atom, ValueKind::numeric, schema.positions},
                          .row_shape = {3},
                          .numbers = of.positions}
                  .stored()};
    for (const MemoryField& field : of.fields) stored.push_back(field.stored());
    visitor.geometry({of.n_atoms(), schema.positions, stored[0], std::as_bytes(std::span(of.numbers))});
    for (size_t i = 0; i < of.fields.size(); ++i) {
      const MemoryField& field = of.fields[i];
      const auto declared = std::ranges::find_if(schema.fields, [&](const FieldDeclaration& declaration) {
        return declaration.scope == field.scope && declaration.key == field.key;
      });
      const bool is_declared = declared != schema.fields.end();
      visitor.field({.scope = field.scope,
                     .key = field.key,
                     .type = field.type,
                     .row_shape = field.row_shape,
                     .declaration = is_declared ? static_cast<int32_t>(declared - schema.fields.begin()) : -1,
                     .fault = field.is_damaged ? &fault : nullptr},
                    stored[i + 1]);
    }
  }
  void locate(DataError& error, int64_t index) const override { error.at_molecule(index).in_file("memory"); }

 private:
  std::vector<MemoryMolecule> molecules_;
  std::vector<MoleculeSchema> schemas_;
  int64_t work_;
};

inline MemoryField energy_of(double value) {
  return {.key = "energy",
          .type = {Level::molecule, ValueKind::numeric, DType::float64},
          .row_shape = {},
          .numbers = {value}};
}

inline MemoryField forces_of(std::vector<double> values) {
  return {.key = "forces",
          .type = {Level::atom, ValueKind::numeric, DType::float32},
          .row_shape = {3},
          .numbers = std::move(values)};
}

inline std::vector<double> random_numbers(size_t n, std::mt19937& random, double extent = 4) {
  std::uniform_real_distribution<double> uniform(0, extent);
  std::vector<double> numbers(n);
  for (double& number : numbers) number = static_cast<float>(uniform(random));
  return numbers;
}

// The schema of random_molecules(), which have no other fields.
inline MoleculeSchema molecule_schema() {
  return {DType::float64,
          {{Scope::builtin, "energy", {Level::molecule, ValueKind::numeric, DType::float64}, Shape{}},
           {Scope::builtin, "forces", {Level::atom, ValueKind::numeric, DType::float32}, Shape{3}}}};
}

// Molecules of 0 to 6 atoms of hydrogen and oxygen. Every third has no energy, every fourth no forces.
inline std::vector<MemoryMolecule> random_molecules(size_t n, unsigned seed = 0) {
  std::mt19937 random(seed);
  std::vector<MemoryMolecule> molecules(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t n_atoms = random() % 7;
    molecules[i].positions = random_numbers(3 * n_atoms, random);
    for (size_t atom = 0; atom < n_atoms; ++atom) molecules[i].numbers.push_back(random() % 2 == 0 ? 1 : 8);
    if (i % 3 != 0) molecules[i].fields.push_back(energy_of(random_numbers(1, random).front()));
    if (i % 4 != 0) molecules[i].fields.push_back(forces_of(random_numbers(3 * n_atoms, random)));
  }
  return molecules;
}

}  // namespace atompack::test
