#include "bindings/bindings.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(io::RingAddress, process, fd, id);

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

// Returns the message as bytes, the tensors that it lacks, and whether it has the arena.
py::tuple send_tensors(const at::Tensor& arena, const std::vector<at::Tensor>& tensors) {
  const collate::SentTensors sent = collate::send_tensors(arena, tensors);
  py::list outside;
  for (const size_t number : sent.outside) outside.append(tensors[number]);
  return py::make_tuple(
      py::bytes(reinterpret_cast<const char*>(sent.message.data()), sent.message.size() * sizeof(int64_t)), outside,
      sent.has_arena);
}

// Returns the arena, and the tensors in the order in which they were sent.
py::tuple receive_tensors(const py::bytes& message, const py::list& outside, const std::optional<at::Tensor>& arena) {
  const std::string_view bytes = message;
  std::vector<int64_t> numbers(bytes.size() / sizeof(int64_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(int64_t));
  collate::ArenaTensors received = collate::receive_tensors(numbers, arena);
  py::list tensors(received.views.size());
  for (size_t i = 0, next = 0; i < received.views.size(); ++i) {
    const at::Tensor& view = received.views[i];
    tensors[i] = view.defined() ? py::cast(view) : py::object(outside[next++]);
  }
  return py::make_tuple(received.arena, tensors);
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
  module.def("send_tensors", &send_tensors, "arena"_a, "tensors"_a);
  module.def("receive_tensors", &receive_tensors, "message"_a, "outside"_a = py::list(), "arena"_a = py::none());
  module.def("places_of", &places_of, "tensors"_a, "arena"_a);
  module.def("view_arena", &view_arena, "arena"_a, "places"_a);
  module.def("use_one_thread", &collate::use_one_thread);
  module.def("parallel_thread_ids", unlocked(&collate::parallel_thread_ids));
}

}  // namespace atompack::bindings
