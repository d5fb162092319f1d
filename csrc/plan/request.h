// Options of batches of molecules, and the outputs that they ask for.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "model/fields.h"
#include "model/molecule_source.h"
#include "model/sources/augmented.h"
#include "physics/neighbors/neighbors.h"

namespace atompack::plan {

// Outputs: tensors that a batch gets in addition to its fields, in the form that a trainer takes.

struct FieldId {
  Scope scope;
  std::string key;
  auto operator<=>(const FieldId&) const = default;
};

enum class OutputKind : uint8_t {
  value,              // a field
  weight,             // (molecules,): `scale` for molecules with the field, 0 for others
  voigt,              // (molecules, 6): elements `order` of a (3, 3) field
  one_hot,            // (atoms, columns): 1 in the column of the element
  element_index,      // (atoms,): column of the element
  edge_shift,         // (edges, 3): cell shift S
  edge_offset,        // (edges, 3): S cell
  edge_vector,        // (edges, 3): r_j - r_i + S cell
  edge_reversed,      // (2, edges): j, i
  edge_pairs,         // (edges, 2): i, j
  edge_count,         // (molecules,)
  wrapped_positions,  // (atoms, 3): inside of the cell along periodic directions
  wrapped_shift,      // (edges, 3): S between wrapped positions
  cell,               // (molecules, 3, 3)
  reciprocal_cell,    // (molecules, 3, 3): 2 pi times the transposed inverse; 0 for a singular cell
  volume,             // (molecules,): determinant of the cell
  // (molecules, 3, 3): the cell, in which open directions get vectors if it is singular; the identity for molecules
  // that are not periodic
  lattice,
  fractional_positions,  // (atoms, 3): in vectors of the lattice
  constant,              // (molecules or atoms, shape): `fill` everywhere
};

constexpr Names<19> names_of(OutputKind) {
  return {"kind",
          {"value", "weight", "voigt", "one_hot", "element_index", "edge_shift", "edge_offset", "edge_vector",
           "edge_reversed", "edge_pairs", "edge_count", "wrapped_positions", "wrapped_shift", "cell", "reciprocal_cell",
           "volume", "lattice", "fractional_positions", "constant"}};
}

struct Output {
  OutputKind kind;
  DType dtype;
  std::optional<FieldId> field = std::nullopt;  // of kinds value, weight and voigt
  double fill = NAN;  // of molecules without the field; NaN is 0 for integers and false for booleans
  double scale = 1;
  std::vector<int64_t> columns = {};    // by atomic number; -1: not an element of the model
  std::vector<double> references = {};  // by atomic number, subtracted for each atom; NaN: none is known
  std::vector<int64_t> order = {};      // of kind voigt
  // Of kind constant.
  Level level = Level::molecule;
  std::vector<int64_t> row_shape = {};
  // Of kinds made of the cell: open directions get vectors of their own, so long that no image is within this cutoff;
  // 0: the cell as stored.
  double cutoff = 0;
};

struct OutputDims {
  int64_t molecules = 0, atoms = 0, edges = 0;
};

// Level and row shape of the field that an output is made of.
struct SourceField {
  Level level = Level::molecule;
  std::vector<int64_t> row_shape;
};

// Shape of an output. Throws FieldError if the field does not fit the kind.
std::vector<int64_t> output_shape(const Output& output, const OutputDims& dims,
                                  const std::optional<SourceField>& field);

// Options of batches of molecules.
enum class Missing : uint8_t { nan, error, drop };

constexpr Names<3> names_of(Missing) { return {"missing", {"nan", "error", "drop"}}; }

struct Request {
  std::optional<std::set<FieldId>> fields;  // nullopt: all; builtin ones that no schema has are missing values
  std::set<FieldId> excluded;
  std::optional<DType> floating;  // dtype of every floating field except the energy
  std::map<FieldId, DType> casts;
  Missing missing = Missing::nan;
  std::optional<physics::NeighborOptions> neighbors;  // nullopt: no edges
  std::optional<Augmentation> augment;                // nullopt: molecules as stored
  std::vector<Output> outputs;
  bool structure = true;  // false: no rows of positions, atomic numbers and the molecule of each atom
  int max_threads = 0;    // 0: the number that torch uses

  bool selects(const FieldId& id) const { return (!fields || fields->contains(id)) && !excluded.contains(id); }
  // Returns the dtype in a batch of values of this stored dtype. Throws FieldError if they cannot be cast to it.
  DType output_dtype(const FieldId& id, DType stored) const;
  // Returns output_dtype() without checking that the cast is possible.
  DType wanted_dtype(const FieldId& id, DType stored) const;
  // Returns the error for a molecule without a field that it must have, with the way out.
  FieldError absent(const FieldId& id) const;
};

}  // namespace atompack::plan
