#include "plan/molecules/request.h"

namespace atompack::collate {
namespace {

// Floats to floats; integers only to where every value fits.
bool can_cast(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(from)) return is_floating(to);
  return from == DType::int32 && (to == DType::int64 || to == DType::float64);
}

}  // namespace

DType Request::output_dtype(const FieldId& id, DType stored) const {
  // Total energies do not survive float32: they widen on their own and narrow only when named.
  const bool is_energy = id.scope == Scope::builtin && id.key == "energy";
  const DType natural = is_energy ? DType::float64 : stored;
  if (const auto named = casts.find(id); named != casts.end()) {
    if (!can_cast(stored, named->second)) {
      throw FieldError(cat("dtype: ", name_of(stored), " values cannot be cast to ", name_of(named->second)))
          .at_field(id.key);
    }
    return named->second;
  }
  return floating && is_floating(natural) && !is_energy ? *floating : natural;
}

}  // namespace atompack::collate
