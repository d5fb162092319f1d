#include "plan/molecules/request.h"

#include "plan/type_rules.h"

namespace atompack::collate {
DType Request::wanted_dtype(const FieldId& id, DType stored) const {
  if (const auto named = casts.find(id); named != casts.end()) return named->second;
  // Total energies do not survive float32: they widen on their own and narrow only when named.
  const bool is_energy = id.scope == Scope::builtin && id.key == "energy";
  const DType natural = is_energy ? DType::float64 : stored;
  return floating && is_floating(natural) && !is_energy ? *floating : natural;
}

DType Request::output_dtype(const FieldId& id, DType stored) const {
  const DType wanted = wanted_dtype(id, stored);
  if (casts.contains(id) && !can_cast(stored, wanted)) {
    throw FieldError(cat("dtype: ", name_of(stored), " values cannot be cast to ", name_of(wanted))).at_field(id.key);
  }
  return wanted;
}

}  // namespace atompack::collate
