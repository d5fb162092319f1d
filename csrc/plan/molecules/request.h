// Options of batches of molecules.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/fields.h"
#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"
#include "plan/molecules/output.h"

namespace atompack::collate {

enum class Missing : uint8_t { nan, error, drop };

struct Request {
  std::optional<std::set<FieldId>> fields;  // nullopt: all
  std::set<FieldId> excluded;
  std::vector<FieldDeclaration> defaults;  // named by the user; added as missing values if no schema has them
  std::optional<DType> floating;           // dtype of every floating field except the energy
  std::map<FieldId, DType> casts;
  Missing missing = Missing::nan;
  std::optional<physics::NeighborOptions> neighbors;  // nullopt: no edges
  std::vector<Output> outputs;
  int max_threads = 0;  // 0: the number that torch uses

  bool selects(const FieldId& id) const { return (!fields || fields->contains(id)) && !excluded.contains(id); }
  // Returns the dtype in a batch of values of this stored dtype. Throws FieldError if they cannot be cast to it.
  DType output_dtype(const FieldId& id, DType stored) const;
  // Returns output_dtype() without checking that the cast is possible.
  DType wanted_dtype(const FieldId& id, DType stored) const;
  // Returns the error for a molecule without a field that it must have, with the way out.
  FieldError absent(const FieldId& id) const;
};

}  // namespace atompack::collate
