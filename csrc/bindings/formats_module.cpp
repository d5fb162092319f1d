// The extension module atompack_torch._formats: files and their contents. Importing it does not need
// torch, so that commands that do not use torch start quickly.
#include <pybind11/pybind11.h>

#include "bindings/bindings.h"

namespace atompack::bindings {

Bind bind_file_store, bind_atp, bind_atp_writer, bind_atlas_publishing, bind_atlas_reader, bind_atlas_writer,
    bind_cache_builder, bind_extxyz, bind_parsed, bind_request, bind_passes, bind_shard_reader, bind_torch_cache;

}  // namespace atompack::bindings

PYBIND11_MODULE(_formats, module) {
  using namespace atompack::bindings;
  module.doc() = "Native readers and writers of atompack_torch; use the package, not this module.";
  // Types are registered before functions that have them as arguments.
  for (Bind* const bind : {bind_errors, bind_file_store, bind_atp, bind_atp_writer, bind_atlas_publishing,
                           bind_atlas_reader, bind_atlas_writer, bind_cache_builder, bind_extxyz, bind_parsed,
                           bind_request, bind_passes, bind_shard_reader, bind_torch_cache}) {
    bind(module);
  }
}
