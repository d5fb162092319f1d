// The extension module atompack_torch._C.
#include <pybind11/pybind11.h>

#include "bindings/atlas_store.h"
#include "bindings/atlas_writer.h"
#include "bindings/atp.h"
#include "bindings/atp_writer.h"
#include "bindings/cache_builder.h"
#include "bindings/collate.h"
#include "bindings/descriptor.h"
#include "bindings/errors.h"
#include "bindings/extxyz.h"
#include "bindings/indices.h"
#include "bindings/inspect.h"
#include "bindings/shard_writer.h"
#include "bindings/shards.h"
#include "bindings/torch_cache.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "Native readers and collation of atompack_torch; use the package, not this module.";
  atompack::bindings::bind_errors(module);
  atompack::bindings::bind_atlas_store(module);
  atompack::bindings::bind_atlas_writer(module);
  atompack::bindings::bind_atp(module);
  atompack::bindings::bind_atp_writer(module);
  atompack::bindings::bind_collate(module);
  atompack::bindings::bind_descriptor(module);
  atompack::bindings::bind_extxyz(module);
  atompack::bindings::bind_indices(module);
  atompack::bindings::bind_inspect(module);
  atompack::bindings::bind_shard_writer(module);
  atompack::bindings::bind_shards(module);
  atompack::bindings::bind_torch_cache(module);
  atompack::bindings::bind_cache_builder(module);
}
