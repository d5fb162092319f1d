// The one interface through which a format hands molecules to `collate`: fields are views of bytes, and the
// receiver alone decides where they go and in which type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace atompack {

// Where a field's name lives; the same key may exist in each scope.
enum class Scope : uint8_t { builtin, atom_property, molecule_property };

// How a field collates: one row a molecule, an atom, a stored pair of atoms or a stored triplet.
enum class Level : uint8_t { molecule, atom, edge, triplet };

constexpr std::string_view name_of(Level level) {
  constexpr std::string_view kNames[] = {"molecule", "atom", "edge", "triplet"};
  return kNames[static_cast<size_t>(level)];
}

// none: the value "None" is stored, there is nothing to copy.
enum class ValueKind : uint8_t { numeric, string, none };

// What kind of values a field holds. `row_shape` is that of one row: of the whole value at level molecule, of one
// atom's share at level atom.
struct FieldType {
  Level level = Level::molecule;
  ValueKind kind = ValueKind::numeric;
  DType dtype = DType::float64;
  bool is_atom_index = false;  // atoms by their numbers in the molecule, from 0; in a batch, by those there
  bool operator==(const FieldType&) const = default;
};

// A field as a schema promises it, before any record is read.
struct FieldDeclaration {
  Scope scope;
  std::string key;
  FieldType type;
  std::optional<Shape> row_shape;  // absent: differs from molecule to molecule
};

struct MoleculeSchema {
  DType positions = DType::float32;
  std::vector<FieldDeclaration> fields;  // each (scope, key) once
};

// What an index knows of a molecule without reading its record. `decoded_bytes` is justified by the stored bytes:
// memory may be taken for it, and for what n_atoms atoms need. `work` is how many bytes could be copied in the time
// that the record takes, roughly.
struct MoleculeExtent {
  int64_t n_atoms;
  int64_t decoded_bytes;
  int64_t work;
  int64_t n_edges = 0, n_triplets = 0;  // rows of the levels of these names
};

struct Geometry {
  int64_t n_atoms;
  DType positions_dtype;
  Bytes positions;                     // (n_atoms, 3), unaligned
  Bytes numbers;                       // (n_atoms,), unaligned
  DType numbers_dtype = DType::uint8;  // so in every format
};

// What one value of one molecule is; its bytes come beside it. Both live as long as the call that hands them over.
struct FieldView {
  Scope scope;
  std::string_view key;
  FieldType type;
  Shape row_shape;
  int32_t declaration = -1;                 // its number among the schema's fields; -1: the schema does not list it
  const CorruptFileError* fault = nullptr;  // set: this value is damaged, nothing of it but its name may be used
};

class MoleculeVisitor {
 public:
  virtual ~MoleculeVisitor() = default;
  virtual void geometry(const Geometry& geometry) = 0;
  // `data` is unaligned, in C order, and exactly as long as type and shape say.
  virtual void field(const FieldView& field, Bytes data) = 0;
};

// Molecules by number. Const methods are thread-safe; every index is in [0, size()).
class MoleculeSource {
 public:
  virtual ~MoleculeSource() = default;
  virtual int64_t size() const = 0;

  // Files differ in what they hold: molecules of one schema number promise the same fields.
  virtual std::span<const MoleculeSchema> schemas() const = 0;
  virtual int32_t schema_of(int64_t index) const = 0;

  // Called once before a batch is read: fails if the files no longer hold what they held.
  virtual void prepare(std::span<const int64_t> indices) const = 0;

  virtual MoleculeExtent extent(int64_t index) const = 0;

  // Starts fetching the stored bytes into the processor's cache: records lie scattered, and waiting for each costs
  // more than copying it. Only a hint.
  virtual void prefetch(int64_t) const {}

  // Whether decode() copies into the scratch; if not, it returns a view of the mapping.
  virtual bool needs_scratch(int64_t index) const = 0;

  // The decoded record: in `scratch` (extent().decoded_bytes long) where needs_scratch(), else in the mapping.
  virtual Bytes decode(int64_t index, std::span<std::byte> scratch) const = 0;

  // Hands geometry, then each field that is stored, to the visitor. Throws CorruptFileError.
  virtual void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const = 0;

  // Adds path and number in that file to an error about this molecule; an offset in the record becomes one in the
  // file where that can be. visit() does so itself for what it and its visitor throw.
  virtual void locate(DataError& error, int64_t index) const = 0;
};

}  // namespace atompack
