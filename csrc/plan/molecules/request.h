// What the user wants in a batch.
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

namespace atompack::collate {

struct FieldId {
  Scope scope;
  std::string key;
  auto operator<=>(const FieldId&) const = default;
};

enum class Missing : uint8_t { nan, error, drop };

struct Request {
  std::optional<std::set<FieldId>> fields;  // absent: all there are
  std::set<FieldId> excluded;
  std::vector<FieldDeclaration> defaults;  // named by the user; made, as missing, even where no schema has them
  std::optional<DType> floating;           // of every floating field but the energy
  std::map<FieldId, DType> casts;
  Missing missing = Missing::nan;
  std::optional<physics::NeighborOptions> neighbors;  // absent: no edges
  int max_threads = 0;                                // 0: as many as torch uses

  bool selects(const FieldId& id) const { return (!fields || fields->contains(id)) && !excluded.contains(id); }
  // The type that values of this stored type have in a batch. Throws FieldError where they cannot be cast to it.
  DType output_dtype(const FieldId& id, DType stored) const;
  // The same without a check.
  DType wanted_dtype(const FieldId& id, DType stored) const;
};

}  // namespace atompack::collate
