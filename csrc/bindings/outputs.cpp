#include "collate/outputs.h"
#include "bindings/bindings.h"
#include "bindings/tensor_caster.h"
#include "plan/request.h"

namespace atompack::bindings {

template <>
struct Members<collate::BatchTensors> {
  static auto tie(auto& all) {
    return std::tie(all.positions, all.atomic_numbers, all.ptr, all.cell, all.pbc, all.edge_index, all.edge_shift);
  }
};
template <>
struct Members<collate::FieldTensor> {
  static auto tie(auto& field) { return std::tie(field.level, field.row_shape, field.values, field.mask); }
};

namespace {

std::vector<at::Tensor> make_outputs(const plan::Request& request, const collate::BatchTensors& tensors,
                                     const std::vector<std::optional<collate::FieldTensor>>& fields) {
  return collate::make_outputs(request.outputs, tensors, fields);
}

}  // namespace

void bind_outputs(pybind11::module_& module) {
  module.def("make_outputs", unlocked(&make_outputs), py::arg("request"), py::arg("tensors"), py::arg("fields"));
}

}  // namespace atompack::bindings
