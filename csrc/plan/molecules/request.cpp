#include "plan/molecules/request.h"

#include "plan/type_rules.h"

namespace atompack::collate {
DType Request::wanted_dtype(const FieldId& id, DType stored) const {
  if (const auto cast = casts.find(id); cast != casts.end()) return cast->second;
  // float32 is too coarse for total energies: they become float64, and narrower only by a cast that names them.
  const bool is_energy = id.scope == Scope::builtin && id.key == "energy";
  const DType default_dtype = is_energy ? DType::float64 : stored;
  return floating && is_floating(default_dtype) && !is_energy ? *floating : default_dtype;
}

DType Request::output_dtype(const FieldId& id, DType stored) const {
  const DType wanted = wanted_dtype(id, stored);
  if (casts.contains(id) && !can_cast(stored, wanted)) {
    throw FieldError(cat("dtype: ", name_of(stored), " values cannot be cast to ", name_of(wanted))).at_field(id.key);
  }
  return wanted;
}

FieldError Request::absent(const FieldId& id) const {
  const std::string_view way_out = fields ? R"(missing="nan" gives NaN, missing="drop" drops the molecule)"
                                          : "name those that it must have by fields=";
  FieldError error(cat("the molecule has no such value: ", way_out));
  error.at_field(id.key);
  return error;
}

}  // namespace atompack::collate
