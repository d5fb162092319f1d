#include "bindings/bindings.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(io::RingAddress, process, fd, id);
ATOMPACK_TUPLE(io::RingTicket, ring, slot, number);

namespace {

using PyView = std::tuple<at::ScalarType, size_t, std::vector<int64_t>>;

// Returns the place of each tensor in the arena; none of those that are no view of it.
std::vector<std::optional<PyView>> places_of(const std::vector<at::Tensor>& tensors, const at::Tensor& arena) {
  std::vector<std::optional<PyView>> places(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!collate::is_view_of(tensor, arena)) continue;
    const auto offset = static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
    places[i].emplace(tensor.scalar_type(), offset, tensor.sizes().vec());
  }
  return places;
}

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
  std::vector<DType> all(types.size());
  std::ranges::transform(types, all.begin(), &collate::dtype_of);
  const std::optional<DType> common = plan::common_dtype(all);
  return common ? std::optional(collate::scalar_type_of(*common)) : std::nullopt;
}

// Returns the arena and its views.
std::pair<at::Tensor, std::vector<at::Tensor>> pack_tensors(const std::vector<at::Tensor>& tensors) {
  collate::ArenaTensors packed = collate::pack_tensors(tensors);
  return {std::move(packed.arena), std::move(packed.views)};
}

}  // namespace

void bind_arenas(py::module_& module) {
  module.def("common_dtype", &common_dtype, "dtypes"_a);
  module.def("pack_tensors", &pack_tensors, "tensors"_a);
  module.def("ring_to_attach", &collate::ring_to_attach);
  module.def("attach_ring", &collate::attach_ring, "address"_a);
  module.def("send_arena", &collate::send_arena, "arena"_a);
  module.def("receive_arena", &collate::receive_arena, "ticket"_a, "bytes"_a);
  module.def("places_of", &places_of, "tensors"_a, "arena"_a);
  module.def("view_arena", &view_arena, "arena"_a, "places"_a);
  module.def("use_one_thread", &collate::use_one_thread);
  module.def("parallel_thread_ids", unlocked(&collate::parallel_thread_ids));
}

}  // namespace atompack::bindings
