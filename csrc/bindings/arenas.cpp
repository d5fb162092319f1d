#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/gil.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

using PyAddress = std::tuple<int64_t, int, uint64_t>;
using PyTicket = std::tuple<PyAddress, uint32_t, uint64_t>;

PyAddress to_tuple(const io::RingAddress& address) { return {address.process, address.fd, address.id}; }
io::RingAddress address_of(const PyAddress& address) {
  return {std::get<0>(address), std::get<1>(address), std::get<2>(address)};
}

std::optional<PyAddress> ring_to_attach() {
  const auto address = collate::ring_to_attach();
  return address ? std::optional(to_tuple(*address)) : std::nullopt;
}

std::optional<PyTicket> send_arena(const at::Tensor& arena) {
  const auto ticket = collate::send_arena(arena);
  return ticket ? std::optional(PyTicket{to_tuple(ticket->ring), ticket->slot, ticket->number}) : std::nullopt;
}

at::Tensor receive_arena(const PyTicket& ticket, size_t bytes) {
  return collate::receive_arena({address_of(std::get<0>(ticket)), std::get<1>(ticket), std::get<2>(ticket)}, bytes);
}

using PyView = std::tuple<at::ScalarType, size_t, std::vector<int64_t>>;

// Returns views of an arena that was received from another process or copied to another device.
std::vector<at::Tensor> view_arena(const at::Tensor& arena, const std::vector<PyView>& places) {
  std::vector<at::Tensor> views;
  views.reserve(places.size());
  for (const auto& [dtype, offset, sizes] : places) {
    views.push_back(collate::view_arena(arena, collate::dtype_of(dtype), offset, sizes));
  }
  return views;
}

// Returns the type that can hold tensors of all these types, or nullopt if they do not mix.
std::optional<at::ScalarType> common_dtype(const std::vector<at::ScalarType>& types) {
  std::optional<DType> common = collate::dtype_of(types.at(0));
  for (size_t i = 1; common && i < types.size(); ++i) {
    common = plan::common_dtype(*common, collate::dtype_of(types[i]));
  }
  return common ? std::optional(collate::scalar_type_of(*common)) : std::nullopt;
}

// Copies tensors to one shared arena, which another process can receive.
std::pair<at::Tensor, std::vector<at::Tensor>> pack_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<collate::TensorSpec> specs;
  for (const at::Tensor& one : tensors) specs.push_back({collate::dtype_of(one.scalar_type()), one.sizes().vec()});
  collate::ArenaTensors packed = collate::allocate_tensors(specs, collate::ArenaKind::shared);
  for (size_t i = 0; i < tensors.size(); ++i) packed.views[i].copy_(tensors[i]);
  return {std::move(packed.arena), std::move(packed.views)};
}

}  // namespace

void bind_arenas(py::module_& module) {
  module.def("common_dtype", &common_dtype, py::arg("dtypes"));
  module.def("pack_tensors", &pack_tensors, py::arg("tensors"));
  module.def("ring_to_attach", &ring_to_attach);
  module.def(
      "attach_ring", [](const PyAddress& address) { return collate::attach_ring(address_of(address)); },
      py::arg("address"));
  module.def("send_arena", &send_arena, py::arg("arena"));
  module.def("receive_arena", &receive_arena, py::arg("ticket"), py::arg("bytes"));
  module.def("view_arena", &view_arena, py::arg("arena"), py::arg("places"));
  module.def("use_one_thread", &collate::use_one_thread);
  module.def("parallel_thread_ids", unlocked(&collate::parallel_thread_ids));
}

}  // namespace atompack::bindings
