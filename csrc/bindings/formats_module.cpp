// The extension module atompack_torch._formats: files and their contents. Importing it does not need
// torch, so that commands that do not use torch start quickly.
#include <pybind11/pybind11.h>

#include "bindings/bindings.h"

namespace atompack::bindings {

// One of each source file, called in the order in which their types are arguments of each other.
using Bind = void(pybind11::module_&);
Bind bind_file_store, bind_atp, bind_atp_writer, bind_atlas_publishing, bind_atlas_reader, bind_atlas_writer,
    bind_extxyz, bind_parsed, bind_request, bind_passes, bind_shard_reader, bind_torch_cache;

}  // namespace atompack::bindings

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
