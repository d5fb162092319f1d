// Interface through which a format hands molecules to `collate`: fields are views of bytes, and the receiver decides
// where they go and in which type.
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
#include "base/names.h"
#include "base/shape.h"

namespace atompack {

// Namespace of a field's name; the same key may exist in each scope.
enum class Scope : uint8_t { builtin, atom_property, molecule_property };

// Unit of a field's rows: one row per molecule, atom, stored pair of atoms, or stored triplet.
enum class Level : uint8_t { molecule, atom, edge, triplet };

constexpr Names<4> names_of(Level) { return {"level", {"molecule", "atom", "edge", "triplet"}}; }

// none: the value "None" is stored, and there are no bytes to copy.
enum class ValueKind : uint8_t { numeric, string, none };

// Type of a field's values. `row_shape` is the shape of one row: of the whole value at level molecule, of one atom's
// values at level atom.
struct FieldType {
  Level level = Level::molecule;
  ValueKind kind = ValueKind::numeric;
  DType dtype = DType::float64;
  // atoms numbered from 0 within the molecule; collation shifts them to the atoms of the batch
  bool is_atom_index = false;
  bool operator==(const FieldType&) const = default;
};

// Name of the type of the values: "string", "none", or the name of the dtype.
inline std::string_view type_name(const FieldType& type) {
  if (type.kind == ValueKind::numeric) return name_of(type.dtype);
  return type.kind == ValueKind::string ? "string" : "none";
}

// Field declared by a schema, before any record is read.
struct FieldDeclaration {
  Scope scope;
  std::string key;
  FieldType type;
  std::optional<Shape> row_shape;  // nullopt: differs from molecule to molecule
};

struct MoleculeSchema {
  DType positions = DType::float32;
  std::vector<FieldDeclaration> fields;  // each (scope, key) once
};

// Facts that an index knows about a molecule without reading its record. The stored bytes justify `decoded_bytes`:
// memory may be allocated for it, and for n_atoms atoms. `work` is the approximate cost of the record, as the number of
// bytes that could be copied in that time.
struct MoleculeExtent {
  int64_t n_atoms;
  int64_t decoded_bytes;
  int64_t work;
  int64_t n_edges = 0, n_triplets = 0;  // rows of levels edge and triplet
};

struct Geometry {
  int64_t n_atoms;
  DType positions_dtype;
  Bytes positions;                     // (n_atoms, 3), unaligned
  Bytes numbers;                       // (n_atoms,), unaligned
  DType numbers_dtype = DType::uint8;  // in every format
};

// One value of one molecule; its bytes are passed along with it. It is valid during the call that passes it.
struct FieldView {
  Scope scope;
  std::string_view key;
  FieldType type;
  Shape row_shape;
  int32_t declaration = -1;                 // index among the schema's fields; -1: not in the schema
  const CorruptFileError* fault = nullptr;  // if set, the value is damaged and only its name is valid
};

// Bytes of the geometry and of fields are valid until the thread visits another molecule.
class MoleculeVisitor {
 public:
  virtual ~MoleculeVisitor() = default;
  virtual void geometry(const Geometry& geometry) = 0;
  // `data` is unaligned, in C order, and exactly as long as type and shape require.
  virtual void field(const FieldView& field, Bytes data) = 0;
};

// Molecules by index. Const methods are thread-safe; every index is in [0, size()).
class MoleculeSource {
 public:
  virtual ~MoleculeSource() = default;
  virtual int64_t size() const = 0;

  // Returns the number of a molecule in the dataset, as batches report it.
  virtual int64_t number(int64_t index) const { return index; }

  // Files may declare different fields: molecules with the same schema number have the same schema.
  virtual std::span<const MoleculeSchema> schemas() const = 0;
  virtual int32_t schema_of(int64_t index) const = 0;

  // Called once before a batch is read; throws if the files no longer hold the indexed data.
  virtual void prepare(std::span<const int64_t> indices) const = 0;

  // Reading ahead: the number of molecules to announce before they are read; 0 if all is in memory, 1 if that is not
  // known yet.
  virtual int64_t window() const { return 0; }
  // Starts fetching molecules that will be read soon. May wait for the index, not for records.
  virtual void announce(std::span<const int64_t>) const {}

  virtual MoleculeExtent extent(int64_t index) const = 0;

  // Hint: starts fetching the stored bytes into the CPU cache. Records are scattered, and waiting for each costs more
  // than copying it.
  virtual void prefetch(int64_t) const {}

  // True if decode() copies into the scratch; if not, it returns a view of the mapping.
  virtual bool needs_scratch(int64_t index) const = 0;

  // Returns the decoded record: in `scratch` (extent().decoded_bytes long) if needs_scratch(), otherwise in the
  // mapping.
  virtual Bytes decode(int64_t index, std::span<std::byte> scratch) const = 0;

  // Passes the geometry, then each stored field, to the visitor. Throws CorruptFileError.
  virtual void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const = 0;

  // Adds path and index in that file to an error about this molecule; converts an offset in the record to one in the
  // file if possible. visit() does this itself for errors of its own and of its visitor.
  virtual void locate(DataError& error, int64_t index) const = 0;

  // Runs `action`; errors about data get the place of this molecule.
  template <typename Action>
  decltype(auto) located(int64_t index, const Action& action) const {
    return with_context([&](DataError& error) { locate(error, index); }, action);
  }
};

// Decodes a record of this extent, if needed into `scratch`, which only grows.
inline Bytes decode(const MoleculeSource& source, int64_t index, const MoleculeExtent& extent,
                    std::vector<std::byte>& scratch) {
  if (!source.needs_scratch(index)) return source.decode(index, {});
  const auto decoded_bytes = static_cast<size_t>(extent.decoded_bytes);
  if (scratch.size() < decoded_bytes) scratch.resize(decoded_bytes);
  return source.decode(index, std::span(scratch).first(decoded_bytes));
}

}  // namespace atompack
