// The extension module atompack_torch._formats: files and their contents. Importing it does not need
// torch, so that commands that do not use torch start quickly.
#include <pybind11/pybind11.h>

#include "bindings/bindings.h"

PYBIND11_MODULE(_formats, module) {
  module.doc() = "Native readers and writers of atompack_torch; use the package, not this module.";
  atompack::bindings::bind_errors(module);
  atompack::bindings::bind_file_store(module);
  atompack::bindings::bind_atp(module);
  atompack::bindings::bind_atp_writer(module);
  atompack::bindings::bind_atlas_publishing(module);
  atompack::bindings::bind_atlas_reader(module);
  atompack::bindings::bind_atlas_writer(module);
  atompack::bindings::bind_extxyz(module);
  atompack::bindings::bind_parsed(module);
  atompack::bindings::bind_request(module);
  atompack::bindings::bind_passes(module);
  atompack::bindings::bind_shard_reader(module);
  atompack::bindings::bind_torch_cache(module);
}
