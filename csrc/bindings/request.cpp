#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include "bindings/enum_casters.h"
#include "model/property_types.h"
#include "plan/field_set.h"
#include "plan/request.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using plan::Missing;
using plan::OutputField;
using plan::Request;

using PyFieldId = std::pair<Scope, std::string>;

plan::FieldId field_id(const PyFieldId& id) { return {id.first, id.second}; }

std::set<plan::FieldId> field_ids(const std::vector<PyFieldId>& ids) {
  std::set<plan::FieldId> set;
  for (const PyFieldId& id : ids) set.insert(field_id(id));
  return set;
}

// (scope, key, level, dtype or "string", row shape)
using PyDeclaration = std::tuple<Scope, std::string, Level, std::string, std::vector<int64_t>>;

FieldDeclaration declaration(const PyDeclaration& from) {
  const auto& [scope, key, level, type, dims] = from;
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  const bool text = type == "string";
  return {scope,
          key,
          {level, text ? ValueKind::string : ValueKind::numeric, text ? DType::uint8 : value_named<DType>(type)},
          shape};
}

// (cutoff, full, vectors, self_interaction, cutoff of triplets or None, maximum number of neighbors or None)
using PyNeighbors = std::tuple<double, bool, bool, bool, std::optional<double>, std::optional<size_t>>;

// (rotation, noise, largest strain, whether the noise is kept, vectors, tensors, seed, epoch)
using PyAugmentation =
    std::tuple<Rotation, double, double, bool, std::vector<PyFieldId>, std::vector<PyFieldId>, uint64_t, uint64_t>;

// (kind, dtype, field or None, fill, scale, columns, references, order, level, row shape, cutoff)
using PyOutput = std::tuple<plan::OutputKind, DType, std::optional<PyFieldId>, double, double, std::vector<int64_t>,
                            std::vector<double>, std::vector<int64_t>, Level, std::vector<int64_t>, double>;

plan::Output output(const PyOutput& from) {
  const auto& [kind, dtype, field, fill, scale, columns, references, order, level, row_shape, cutoff] = from;
  return {.kind = kind,
          .dtype = dtype,
          .field = field ? std::optional(field_id(*field)) : std::nullopt,
          .fill = fill,
          .scale = scale,
          .columns = columns,
          .references = references,
          .order = order,
          .level = level,
          .row_shape = row_shape,
          .cutoff = cutoff};
}

std::shared_ptr<Request> make_request(const std::optional<std::vector<PyFieldId>>& fields,
                                      const std::vector<PyFieldId>& excluded,
                                      const std::vector<PyDeclaration>& defaults, std::optional<DType> floating,
                                      const std::vector<std::pair<PyFieldId, DType>>& casts, Missing missing,
                                      const std::optional<PyNeighbors>& neighbors,
                                      const std::optional<PyAugmentation>& augment,
                                      const std::vector<PyOutput>& outputs, bool structure, int max_threads) {
  auto request = std::make_shared<Request>();
  if (fields) request->fields = field_ids(*fields);
  request->excluded = field_ids(excluded);
  for (const PyDeclaration& from : defaults) request->defaults.push_back(declaration(from));
  request->floating = floating;
  for (const auto& [id, dtype] : casts) request->casts.emplace(field_id(id), dtype);
  request->missing = missing;
  if (neighbors) {
    const auto& [cutoff, full, vectors, self_interaction, triplet_cutoff, max_neighbors] = *neighbors;
    request->neighbors = {cutoff, full, vectors, self_interaction, triplet_cutoff, max_neighbors};
  }
  if (augment) {
    const auto& [rotation, noise, strain, keeps_noise, vectors, tensors, seed, epoch] = *augment;
    request->augment = {rotation, noise, strain, keeps_noise, vectors, tensors, seed, epoch};
  }
  request->structure = structure;
  for (const PyOutput& from : outputs) request->outputs.push_back(output(from));
  request->max_threads = max_threads;
  return request;
}

py::object shape_of(const OutputField& field) {
  if (!field.row_shape) return py::none();
  return py::tuple(py::cast(std::vector<int64_t>(field.row_shape->dims().begin(), field.row_shape->dims().end())));
}

// [(scope, key, level, dtype or "string" or "none", shape or None)]
py::list list_output_fields(const Request& request, const MoleculeSource& source) {
  py::list all;
  for (const OutputField& field : output_fields(source.schemas(), request)) {
    const std::string_view type = field.type.kind == ValueKind::numeric  ? name_of(field.type.dtype)
                                  : field.type.kind == ValueKind::string ? "string"
                                                                         : "none";
    all.append(py::make_tuple(field.id.scope, field.id.key, field.type.level, type, shape_of(field)));
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
    const std::string_view type = field.kind == ValueKind::string ? "string" : name_of(field.dtype);
    const py::tuple shape = py::cast(std::vector<int64_t>(field.row.dims().begin(), field.row.dims().end()));
    all.append(py::make_tuple(field.key, field.level, type, shape, field.unit, name_of(field.rotation),
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
           py::arg("excluded") = std::vector<PyFieldId>(), py::arg("defaults") = std::vector<PyDeclaration>(),
           py::arg("floating") = py::none(), py::arg("casts") = std::vector<std::pair<PyFieldId, DType>>(),
           py::arg("missing") = Missing::nan, py::arg("neighbors") = py::none(), py::arg("augment") = py::none(),
           py::arg("outputs") = std::vector<PyOutput>(), py::arg("structure") = true, py::arg("max_threads") = 0)
      .def(
          "selects", [](const Request& request, const PyFieldId& id) { return request.selects(field_id(id)); },
          py::arg("field"))
      .def("output_fields", &list_output_fields, py::arg("source"))
      .def(
          "positions",
          [](const Request& request, const MoleculeSource& source) {
            return resolve_positions(source.schemas(), request);
          },
          py::arg("source"));
}

}  // namespace atompack::bindings
