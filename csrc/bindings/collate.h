// Collators and the tensors they make.
#pragma once

#include <pybind11/pybind11.h>

#include "collate/batch.h"

namespace atompack::bindings {

// (arena, table, values, masks, [(field, fault)])
pybind11::tuple hand_over(collate::Batch batch);

void bind_collate(pybind11::module_& module);

}  // namespace atompack::bindings
