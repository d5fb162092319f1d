// Extension module atompack_torch._C: batches of tensors. Importing it needs torch.
#include <pybind11/pybind11.h>

#include "bindings/bindings.h"

namespace atompack::bindings {

Bind bind_arenas, bind_batchers, bind_descriptor, bind_indices, bind_outputs, bind_pickles, bind_resident,
    bind_shard_writer;

}  // namespace atompack::bindings

PYBIND11_MODULE(_C, module) {
  using namespace atompack::bindings;
  module.doc() = "Native collation of atompack_torch; use the package, not this module.";
  pybind11::module_::import("atompack_torch._formats");  // its classes are arguments here
  // Types are registered before functions that have them as arguments.
  for (Bind* const bind : {bind_errors, bind_arenas, bind_resident, bind_batchers, bind_descriptor, bind_indices,
                           bind_outputs, bind_pickles, bind_shard_writer}) {
    bind(module);
  }
}
