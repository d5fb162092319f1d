// Registration functions of the extension modules, one for each source file. Those of _formats are in
// formats_module.cpp.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

// For both modules.
void bind_errors(pybind11::module_& module);

// For _C, which makes batches of tensors.
void bind_arenas(pybind11::module_& module);
void bind_batchers(pybind11::module_& module);
void bind_cache_builder(pybind11::module_& module);
void bind_descriptor(pybind11::module_& module);
void bind_indices(pybind11::module_& module);
void bind_outputs(pybind11::module_& module);
void bind_pickles(pybind11::module_& module);
void bind_resident(pybind11::module_& module);
void bind_shard_writer(pybind11::module_& module);

}  // namespace atompack::bindings
