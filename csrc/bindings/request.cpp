#include "bindings/bindings.h"

#include "model/property_types.h"
#include "plan/field_set.h"
#include "plan/request.h"

namespace atompack::bindings {

template <>
struct Members<plan::FieldId> {
  static auto tie(auto& id) { return std::tie(id.scope, id.key); }
};
template <>
struct Members<physics::NeighborOptions> {
  static auto tie(auto& options) {
    return std::tie(options.cutoff, options.full, options.vectors, options.self_interaction, options.triplet_cutoff,
                    options.max_neighbors);
  }
};
template <>
struct Members<Augmentation> {
  static auto tie(auto& options) {
    return std::tie(options.rotation, options.noise, options.strain, options.keeps_noise, options.vectors,
                    options.tensors, options.seed, options.epoch);
  }
};
template <>
struct Members<plan::Output> {
  static auto tie(auto& output) {
    return std::tie(output.kind, output.dtype, output.field, output.fill, output.scale, output.columns,
                    output.references, output.order, output.level, output.row_shape, output.cutoff);
  }
};

namespace {

using plan::FieldId;
using plan::Missing;
using plan::Output;
using plan::OutputField;
using plan::Request;

// (scope, key, level, dtype or "string", row shape)
using PyDeclaration = std::tuple<Scope, std::string, Level, std::string, Shape>;

FieldDeclaration declaration(const PyDeclaration& from) {
  const auto& [scope, key, level, type, row_shape] = from;
  return {scope, key, type_named(type, level), row_shape};
}

std::shared_ptr<Request> make_request(const std::optional<std::vector<FieldId>>& fields,
                                      const std::vector<FieldId>& excluded, const std::vector<PyDeclaration>& defaults,
                                      std::optional<DType> floating,
                                      const std::vector<std::pair<FieldId, DType>>& casts, Missing missing,
                                      const std::optional<physics::NeighborOptions>& neighbors,
                                      const std::optional<Augmentation>& augment, std::vector<Output> outputs,
                                      bool structure, int max_threads) {
  auto request = std::make_shared<Request>();
  if (fields) request->fields.emplace(fields->begin(), fields->end());
  request->excluded = {excluded.begin(), excluded.end()};
  for (const PyDeclaration& from : defaults) request->defaults.push_back(declaration(from));
  request->floating = floating;
  request->casts = {casts.begin(), casts.end()};
  request->missing = missing;
  request->neighbors = neighbors;
  request->augment = augment;
  request->structure = structure;
  request->outputs = std::move(outputs);
  request->max_threads = max_threads;
  return request;
}

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
  module.def("stored_dtype", &stored_dtype, py::arg("dtype"), py::arg("is_scalar"));
  module.def(
      "has_own_shape",
      [](const std::vector<int64_t>& row_shape, Level level, DType dtype) {
        return has_own_shape(row_shape, level, dtype);
      },
      py::arg("row_shape"), py::arg("level"), py::arg("dtype"));
  py::class_<Request, std::shared_ptr<Request>>(module, "BatchRequest")
      .def(py::init(&make_request), py::kw_only(), py::arg("fields") = py::none(),
           py::arg("excluded") = std::vector<FieldId>(), py::arg("defaults") = std::vector<PyDeclaration>(),
           py::arg("floating") = py::none(), py::arg("casts") = std::vector<std::pair<FieldId, DType>>(),
           py::arg("missing") = Missing::nan, py::arg("neighbors") = py::none(), py::arg("augment") = py::none(),
           py::arg("outputs") = std::vector<Output>(), py::arg("structure") = true, py::arg("max_threads") = 0)
      .def("selects", &Request::selects, py::arg("field"))
      .def("output_fields", &list_output_fields, py::arg("source"))
      .def(
          "positions",
          [](const Request& request, const MoleculeSource& source) {
            return resolve_positions(source.schemas(), request);
          },
          py::arg("source"));
}

}  // namespace atompack::bindings
