#include "collate/outputs.h"
#include "bindings/bindings.h"
#include "bindings/tensor_caster.h"
#include "plan/request.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(collate::BatchTensors, positions, atomic_numbers, ptr, cell, pbc, edge_index, edge_shift);
ATOMPACK_TUPLE(collate::FieldTensor, level, row_shape, values, mask);

namespace {

std::vector<at::Tensor> make_outputs(const plan::Request& request, const collate::BatchTensors& tensors,
                                     const std::vector<std::optional<collate::FieldTensor>>& fields) {
  return collate::make_outputs(request.outputs, tensors, fields);
}

}  // namespace

void bind_outputs(pybind11::module_& module) {
  module.def("make_outputs", unlocked(&make_outputs), "request"_a, "tensors"_a, "fields"_a);
}

}  // namespace atompack::bindings
