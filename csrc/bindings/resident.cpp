#include "model/sources/resident.h"

#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/tensor_caster.h"
#include "collate/edges.h"
#include "collate/resident_builder.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using collate::ResidentBuilder;
using plan::PrecomputedEdges;
using plan::Request;

using PyShape = std::optional<std::vector<int64_t>>;

// scope, key, level, dtype or "string" or "none", true for atom indices, row shape or None
using PyResidentField = std::tuple<Scope, py::bytes, Level, std::string, bool, PyShape>;
// schema, declaration, field
using PyStoredField = std::tuple<int32_t, int32_t, PyResidentField>;
// schema, dtype of positions, dtype of numbers, numbers of the fields
using PyForm = std::tuple<int32_t, DType, DType, std::vector<int32_t>>;
// dtype of positions and fields of each schema; fields; forms; path
using PyTables = std::tuple<std::vector<std::pair<DType, std::vector<PyResidentField>>>, std::vector<PyStoredField>,
                            std::vector<PyForm>, std::string>;

PyResidentField to_py(Scope scope, const std::string& key, const FieldType& type, const PyShape& shape) {
  return {scope, py::bytes(key), type.level, std::string(type_name(type)), type.is_atom_index, shape};
}

FieldType type_of(const PyResidentField& field) {
  return type_named(std::get<3>(field), std::get<2>(field), std::get<4>(field));
}

PyTables tables_of(const ResidentSource& source) {
  PyTables made;
  auto& [schemas, fields, forms, path] = made;
  const ResidentTables& tables = *source.tables();
  for (const MoleculeSchema& schema : tables.schemas) {
    auto& declared = schemas.emplace_back(schema.positions, std::vector<PyResidentField>()).second;
    for (const FieldDeclaration& field : schema.fields) {
      PyShape shape;
      if (field.row_shape) shape.emplace(field.row_shape->dims().begin(), field.row_shape->dims().end());
      declared.push_back(to_py(field.scope, field.key, field.type, shape));
    }
  }
  for (const ResidentField& field : tables.fields) {
    fields.emplace_back(field.schema, field.declaration, to_py(field.scope, field.key, field.type, field.row_shape));
  }
  for (const ResidentForm& form : tables.forms) {
    forms.emplace_back(form.schema, form.positions, form.numbers, form.fields);
  }
  path = tables.path;
  return made;
}

std::shared_ptr<const ResidentTables> tables_from(const PyTables& given) {
  const auto& [schemas, fields, forms, path] = given;
  auto tables = std::make_shared<ResidentTables>();
  for (const auto& [positions, declared] : schemas) {
    MoleculeSchema& schema = tables->schemas.emplace_back();
    schema.positions = positions;
    for (const PyResidentField& field : declared) {
      const PyShape& shape = std::get<5>(field);
      schema.fields.push_back({std::get<0>(field), std::string(std::get<1>(field)), type_of(field),
                               shape ? std::optional(Shape(std::span(*shape))) : std::nullopt});
    }
  }
  for (const auto& [schema, declaration, field] : fields) {
    tables->fields.push_back(
        {schema, std::get<0>(field), std::string(std::get<1>(field)), type_of(field), std::get<5>(field), declaration});
  }
  for (const auto& [schema, positions, numbers, numbers_of_fields] : forms) {
    tables->forms.push_back({schema, positions, numbers, numbers_of_fields});
  }
  tables->path = path;
  return tables;
}

std::span<std::byte> bytes_in(const at::Tensor& memory) {
  return {static_cast<std::byte*>(memory.mutable_data_ptr()), memory.nbytes()};
}

std::shared_ptr<ResidentSource> open_resident(std::shared_ptr<const ResidentTables> tables, const at::Tensor& memory,
                                              int64_t n_molecules) {
  return make_shared_handle<ResidentSource>(std::move(tables), bytes_in(memory), n_molecules,
                                            std::make_shared<at::Tensor>(memory));
}

UniqueHandle<ResidentBuilder> make_builder(std::shared_ptr<MoleculeSource> source, std::vector<int64_t> numbers,
                                           const std::vector<std::shared_ptr<Request>>& requests, std::string path) {
  return make_unique_handle<ResidentBuilder>(
      std::move(source), std::move(numbers),
      std::vector<std::shared_ptr<const Request>>(requests.begin(), requests.end()), std::move(path));
}

using Given = std::optional<at::Tensor>;

std::shared_ptr<PrecomputedEdges> keep(const std::shared_ptr<Request>& request, const at::Tensor& edge_ptr,
                                       const at::Tensor& index, const at::Tensor& shift, const Given& vector,
                                       const Given& triplet_ptr, const Given& triplet_edges) {
  if (!request->neighbors) throw InternalError("edges are kept for a request without neighbors");
  return std::const_pointer_cast<PrecomputedEdges>(
      collate::keep_edges(*request->neighbors, {edge_ptr, index, shift, vector, triplet_ptr, triplet_edges}));
}

}  // namespace

void bind_resident(py::module_& module) {
  py::class_<ResidentSource, MoleculeSource, std::shared_ptr<ResidentSource>>(module, "ResidentSource")
      .def(py::init([](const PyTables& tables, const at::Tensor& memory, int64_t n_molecules) {
             auto native = tables_from(tables);
             return without_gil([&] { return open_resident(std::move(native), memory, n_molecules); });
           }),
           py::arg("tables"), py::arg("memory"), py::arg("n_molecules"))
      .def("tables", &tables_of);
  py::class_<ResidentBuilder, UniqueHandle<ResidentBuilder>>(module, "ResidentBuilder")
      .def(py::init(unlocked(&make_builder)), py::arg("source"), py::arg("numbers"), py::arg("requests"),
           py::arg("path"))
      .def("__len__", &ResidentBuilder::size)
      .def("measure", unlocked(&ResidentBuilder::measure), py::arg("first"), py::arg("last"))
      .def("bytes", &ResidentBuilder::bytes)
      .def("copy", unlocked([](ResidentBuilder& self, int64_t first, int64_t last, const at::Tensor& memory) {
             self.copy(first, last, bytes_in(memory));
           }),
           py::arg("first"), py::arg("last"), py::arg("memory"))
      .def("source", unlocked([](const ResidentBuilder& self, const at::Tensor& memory) {
             return open_resident(self.tables(), memory, self.size());
           }),
           py::arg("memory"));
  py::class_<PrecomputedEdges, std::shared_ptr<PrecomputedEdges>>(module, "PrecomputedEdges")
      .def(py::init(unlocked(&keep)), py::kw_only(), py::arg("request"), py::arg("edge_ptr"), py::arg("index"),
           py::arg("shift"), py::arg("vector"), py::arg("triplet_ptr"), py::arg("triplet_edges"));
  module.def("count_stored_rows", unlocked([](const MoleculeSource& source, const std::vector<int64_t>& numbers) {
               return collate::count_stored_rows(source, numbers);
             }),
             py::arg("source"), py::arg("numbers"));
}

}  // namespace atompack::bindings
