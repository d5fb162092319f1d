// Registration functions of the extension modules, one for each source file, and the type casters that these share.
// Those of _formats are in formats_module.cpp.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "bindings/tuple_caster.h"

namespace atompack::bindings {

namespace py = pybind11;

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
