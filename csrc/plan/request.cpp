#include "plan/request.h"

#include <algorithm>

#include "base/error.h"
#include "plan/type_rules.h"

namespace atompack::plan {
namespace {

const SourceField& checked_field(const Output& output, const std::optional<SourceField>& field) {
  if (!field) throw InternalError("an output of this kind needs a field");
  if (field->level != Level::molecule && field->level != Level::atom) {
    throw FieldError("expected values of molecules or atoms").at_field(output.field->key);
  }
  const std::vector<int64_t> tensor{3, 3};
  const bool fits = output.kind != OutputKind::voigt || (field->level == Level::molecule && field->row_shape == tensor);
  if (!fits) throw FieldError("expected (3, 3) values of molecules").at_field(output.field->key);
  const bool has_references = !output.references.empty();
  if (has_references && (field->level != Level::molecule || !field->row_shape.empty())) {
    throw FieldError("expected one number for each molecule, to subtract references").at_field(output.field->key);
  }
  return *field;
}

}  // namespace

std::vector<int64_t> output_shape(const Output& output, const OutputDims& dims,
                                  const std::optional<SourceField>& field) {
  switch (output.kind) {
    case OutputKind::value: {
      const SourceField& of = checked_field(output, field);
      std::vector<int64_t> shape{of.level == Level::atom ? dims.atoms : dims.molecules};
      shape.insert(shape.end(), of.row_shape.begin(), of.row_shape.end());
      return shape;
    }
    case OutputKind::constant: {
      std::vector<int64_t> shape{output.level == Level::atom ? dims.atoms : dims.molecules};
      shape.insert(shape.end(), output.row_shape.begin(), output.row_shape.end());
      return shape;
    }
    case OutputKind::voigt:
      checked_field(output, field);
      if (output.order.size() != 6) throw InternalError("an order of other than six elements");
      return {dims.molecules, 6};
    case OutputKind::weight:
    case OutputKind::edge_count:
    case OutputKind::volume:
      return {dims.molecules};
    case OutputKind::one_hot:
      return {dims.atoms, output.columns.empty() ? 0 : *std::ranges::max_element(output.columns) + 1};
    case OutputKind::element_index:
      return {dims.atoms};
    case OutputKind::edge_shift:
    case OutputKind::edge_offset:
    case OutputKind::edge_vector:
    case OutputKind::wrapped_shift:
      return {dims.edges, 3};
    case OutputKind::edge_reversed:
      return {2, dims.edges};
    case OutputKind::edge_pairs:
      return {dims.edges, 2};
    case OutputKind::wrapped_positions:
    case OutputKind::fractional_positions:
      return {dims.atoms, 3};
    case OutputKind::lattice:
    case OutputKind::cell:
    case OutputKind::reciprocal_cell:
      return {dims.molecules, 3, 3};
  }
  throw InternalError("kind of an output out of range");
}

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

}  // namespace atompack::plan
