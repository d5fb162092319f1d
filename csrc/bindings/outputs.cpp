#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/tensor_caster.h"
#include "collate/outputs.h"
#include "plan/request.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using Given = std::optional<at::Tensor>;

// positions, atomic_numbers, ptr; cell, pbc, edge_index, edge_shift or None
using PyTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, Given, Given, Given, Given>;

// (level, row shape, values or None, mask or None)
using PyFieldTensor = std::tuple<Level, std::vector<int64_t>, Given, Given>;

std::vector<at::Tensor> make_outputs(const plan::Request& request, const PyTensors& tensors,
                                     const std::vector<std::optional<PyFieldTensor>>& fields) {
  const auto& [positions, atomic_numbers, ptr, cell, pbc, edge_index, edge_shift] = tensors;
  std::vector<std::optional<collate::FieldTensor>> given;
  for (const auto& field : fields) {
    if (!field) {
      given.emplace_back(std::nullopt);
      continue;
    }
    const auto& [level, row_shape, values, mask] = *field;
    given.emplace_back(collate::FieldTensor{level, row_shape, values, mask});
  }
  return collate::make_outputs(request.outputs, {positions, atomic_numbers, ptr, cell, pbc, edge_index, edge_shift},
                               given);
}

}  // namespace

void bind_outputs(py::module_& module) {
  module.def("make_outputs", unlocked(&make_outputs), py::arg("request"), py::arg("tensors"), py::arg("fields"));
}

}  // namespace atompack::bindings
