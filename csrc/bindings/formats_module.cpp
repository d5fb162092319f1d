// The extension module atompack_torch._formats: files and what is in them. Importing it needs no torch, so that
// commands which need none start at once.
#include <pybind11/pybind11.h>

#include "bindings/atlas_reader.h"
#include "bindings/atlas_writer.h"
#include "bindings/atp.h"
#include "bindings/atp_writer.h"
#include "bindings/errors.h"
#include "bindings/extxyz.h"
#include "bindings/passes.h"
#include "bindings/request.h"
#include "bindings/shard_reader.h"
#include "bindings/torch_cache.h"

PYBIND11_MODULE(_formats, module) {
  module.doc() = "Native readers and writers of atompack_torch; use the package, not this module.";
  atompack::bindings::bind_errors(module);
  atompack::bindings::bind_atp(module);
  atompack::bindings::bind_atp_writer(module);
  atompack::bindings::bind_atlas_reader(module);
  atompack::bindings::bind_atlas_writer(module);
  atompack::bindings::bind_extxyz(module);
  atompack::bindings::bind_request(module);
  atompack::bindings::bind_passes(module);
  atompack::bindings::bind_shard_reader(module);
  atompack::bindings::bind_torch_cache(module);
}
