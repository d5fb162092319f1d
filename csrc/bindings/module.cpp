// Extension module atompack_torch._C: batches of tensors. Importing it needs torch.
#include <pybind11/pybind11.h>

#include "bindings/bindings.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "Native collation of atompack_torch; use the package, not this module.";
  pybind11::module_::import("atompack_torch._formats");  // its classes are arguments here
  atompack::bindings::bind_errors(module);
  atompack::bindings::bind_arenas(module);
  atompack::bindings::bind_resident(module);  // before batchers, whose arguments are of its types
  atompack::bindings::bind_batchers(module);
  atompack::bindings::bind_descriptor(module);
  atompack::bindings::bind_indices(module);
  atompack::bindings::bind_outputs(module);
  atompack::bindings::bind_pickles(module);
  atompack::bindings::bind_shard_writer(module);
  atompack::bindings::bind_cache_builder(module);
}
