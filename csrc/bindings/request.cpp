#include "bindings/bindings.h"

#include "model/property_types.h"
#include "plan/field_set.h"
#include "plan/request.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(plan::FieldId, scope, key);
ATOMPACK_TUPLE(physics::NeighborOptions, cutoff, full, vectors, self_interaction, triplet_cutoff, max_neighbors);
ATOMPACK_TUPLE(Augmentation, rotation, noise, strain, keeps_noise, vectors, tensors, seed, epoch);
ATOMPACK_TUPLE(plan::Output, kind, dtype, field, fill, scale, columns, references, order, level, row_shape, cutoff);

namespace {

using plan::FieldId;
using plan::Missing;
using plan::Output;
using plan::OutputField;
using plan::Request;

py::object shape_of(const OutputField& field) {
  return field.row_shape ? py::tuple(py::cast(*field.row_shape)) : py::object(py::none());
}

// [(scope, key, level, dtype or "string" or "none", shape or None)]
py::list list_output_fields(const Request& request, const MoleculeSource& source) {
  py::list all;
  for (const OutputField& field : output_fields(source.schemas(), request)) {
    all.append(py::make_tuple(field.id.scope, field.id.key, field.type.level, type_name(field.type), shape_of(field)));
  }
  return all;
}

std::string_view name_of(Turning rotation) {
  switch (rotation) {
    case Turning::scalar:
      return "scalar";
    case Turning::vector:
      return "vector";
    case Turning::tensor:
      break;
  }
  return "tensor";
}

// [(key, level, dtype or "string", shape of a row, unit, rotation, true for sections, origin, names)]
py::list builtin_fields() {
  py::list all;
  for (const BuiltinField& field : kBuiltinFields) {
    const py::tuple shape = py::cast(std::vector<int64_t>(field.row.dims().begin(), field.row.dims().end()));
    const FieldType type{field.level, field.kind, field.dtype};
    all.append(py::make_tuple(field.key, field.level, type_name(type), shape, field.unit, name_of(field.rotation),
                              field.storage == Storage::section, field.origin, field.names));
  }
  return all;
}

// [(key, level, true if its values are atom indices)]
py::list derivative_fields() {
  py::list all;
  for (const DerivativeField& field : kDerivativeFields) {
    all.append(py::make_tuple(field.key, field.level, field.is_atom_index));
  }
  return all;
}

}  // namespace

void bind_request(py::module_& module) {
  module.attr("BUILTIN_FIELDS") = builtin_fields();
  module.attr("DERIVATIVE_FIELDS") = derivative_fields();
  module.def("stored_dtype", &stored_dtype, "dtype"_a, "is_scalar"_a);
  module.def(
      "has_own_shape",
      [](const std::vector<int64_t>& row_shape, Level level, DType dtype) {
        return has_own_shape(row_shape, level, dtype);
      },
      "row_shape"_a, "level"_a, "dtype"_a);
  py::class_<Request, std::shared_ptr<Request>>(module, "BatchRequest")
      .def(py::init(constructor<std::shared_ptr<Request>, std::optional<std::set<FieldId>>, std::set<FieldId>,
                                std::optional<DType>, std::map<FieldId, DType>, Missing,
                                std::optional<physics::NeighborOptions>, std::optional<Augmentation>,
                                std::vector<Output>, bool, int>()),
           py::kw_only(), "fields"_a = py::none(), "excluded"_a = std::set<FieldId>(), "floating"_a = py::none(),
           "casts"_a = std::map<FieldId, DType>(), "missing"_a = Missing::nan, "neighbors"_a = py::none(),
           "augment"_a = py::none(), "outputs"_a = std::vector<Output>(), "structure"_a = true, "max_threads"_a = 0)
      .def("selects", &Request::selects, "field"_a)
      .def("output_fields", &list_output_fields, "source"_a)
      .def(
          "positions",
          [](const Request& request, const MoleculeSource& source) {
            return resolve_positions(source.schemas(), request);
          },
          "source"_a);
}

}  // namespace atompack::bindings
