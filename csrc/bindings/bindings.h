// Registration functions of the extension modules, one for each source file.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

// For both modules.
void bind_errors(pybind11::module_& module);

// For _formats, which reads and writes files.
void bind_atlas_publishing(pybind11::module_& module);
void bind_atlas_reader(pybind11::module_& module);
void bind_atlas_writer(pybind11::module_& module);
void bind_atp(pybind11::module_& module);
void bind_atp_writer(pybind11::module_& module);
void bind_extxyz(pybind11::module_& module);
void bind_parsed(pybind11::module_& module);  // after bind_atp
void bind_passes(pybind11::module_& module);  // after bind_atp and bind_request, whose types are arguments
void bind_request(pybind11::module_& module);
void bind_file_store(pybind11::module_& module);  // before those whose arguments are stores
void bind_shard_reader(pybind11::module_& module);
void bind_torch_cache(pybind11::module_& module);

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
