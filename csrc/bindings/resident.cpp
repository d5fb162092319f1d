#include "model/sources/resident.h"

#include "bindings/bindings.h"
#include "bindings/plain_arrays.h"
#include "bindings/tensor_caster.h"
#include "collate/edges.h"
#include "collate/resident_builder.h"

namespace atompack::bindings {

template <>
struct Numbers<ValueKind> {
  static constexpr auto kOption = "kind", kExpected = "0, 1 or 2";
  static constexpr auto kLast = ValueKind::none;
};
ATOMPACK_TUPLE(FieldType, level, kind, dtype, is_atom_index);
ATOMPACK_TUPLE(FieldDeclaration, scope, key, type, row_shape);
ATOMPACK_TUPLE(MoleculeSchema, positions, fields);
ATOMPACK_TUPLE(ResidentField, schema, scope, key, type, row_shape, declaration);
ATOMPACK_TUPLE(ResidentForm, schema, positions, numbers, fields);
ATOMPACK_TUPLE(ResidentTables, schemas, fields, forms, path);

namespace {

using collate::ResidentBuilder;
using plan::PrecomputedEdges;
using plan::Request;

std::span<std::byte> memory_of(const at::Tensor& memory) {
  return {static_cast<std::byte*>(memory.mutable_data_ptr()), memory.nbytes()};
}

std::shared_ptr<ResidentSource> open_resident(std::shared_ptr<const ResidentTables> tables, const at::Tensor& memory,
                                              int64_t n_molecules) {
  return make_shared_handle<ResidentSource>(std::move(tables), memory_of(memory), n_molecules,
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
      .def(py::init(unlocked([](const ResidentTables& tables, const at::Tensor& memory, int64_t n_molecules) {
             return open_resident(std::make_shared<const ResidentTables>(tables), memory, n_molecules);
           })),
           "tables"_a, "memory"_a, "n_molecules"_a)
      .def("tables", [](const ResidentSource& self) { return *self.tables(); });
  py::class_<ResidentBuilder, UniqueHandle<ResidentBuilder>>(module, "ResidentBuilder")
      .def(py::init(unlocked(&make_builder)), "source"_a, "numbers"_a, "requests"_a, "path"_a)
      .def("__len__", &ResidentBuilder::size)
      .def("measure", unlocked(&ResidentBuilder::measure), "first"_a, "last"_a)
      .def("bytes", &ResidentBuilder::bytes)
      .def("copy", unlocked([](ResidentBuilder& self, int64_t first, int64_t last, const at::Tensor& memory) {
             self.copy(first, last, memory_of(memory));
           }),
           "first"_a, "last"_a, "memory"_a)
      .def("source", unlocked([](const ResidentBuilder& self, const at::Tensor& memory) {
             return open_resident(self.tables(), memory, self.size());
           }),
           "memory"_a);
  py::class_<PrecomputedEdges, std::shared_ptr<PrecomputedEdges>>(module, "PrecomputedEdges")
      .def(py::init(unlocked(&keep)), py::kw_only(), "request"_a, "edge_ptr"_a, "index"_a, "shift"_a, "vector"_a,
           "triplet_ptr"_a, "triplet_edges"_a);
  module.def("count_stored_rows", unlocked(&collate::count_stored_rows), "source"_a, "numbers"_a);
}

}  // namespace atompack::bindings
