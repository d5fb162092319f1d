#include "bindings/collate.h"

#include <pybind11/stl.h>

#include <array>

#include "bindings/dtypes.h"
#include "bindings/example_reader.h"
#include "bindings/indices.h"
#include "bindings/tensor_caster.h"
#include "bindings/unlocked.h"
#include "bindings/wait_interruptibly.h"
#include "collate/arena/ring_arena.h"
#include "collate/collator.h"
#include "collate/prefetcher.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using collate::ArenaKind;
using collate::Batch;
using collate::Collator;
using collate::FieldTable;
using collate::Request;

std::shared_ptr<Collator> make_collator(std::shared_ptr<MoleculeSource> source, std::shared_ptr<Request> request) {
  return make_shared_handle<Collator>(std::move(source), std::move(request));
}

constexpr auto to_object = []<typename Held>(Held& held) -> py::object {
  if constexpr (std::is_same_v<Held, collate::Strings>) {
    py::list texts(held.size());
    for (size_t i = 0; i < held.size(); ++i) texts[i] = held[i] ? to_str(*held[i]) : py::object(py::none());
    return texts;
  } else {
    return py::cast(std::move(held));
  }
};

// positions, atomic_numbers, batch, ptr, n_atoms, index, then edges, then the fields of the table
py::list values_of(Batch& batch) {
  const std::array structure{&batch.positions, &batch.atomic_numbers, &batch.batch,
                             &batch.ptr,       &batch.n_atoms,        &batch.index};
  py::list all(structure.size() + batch.edges.size() + batch.values.size());
  size_t place = 0;
  for (const at::Tensor* tensor : structure) all[place++] = py::cast(*tensor);
  for (const at::Tensor& tensor : batch.edges) all[place++] = py::cast(tensor);
  for (auto& value : batch.values) {
    all[place++] = std::visit(to_object, value);
  }
  return all;
}

Shown shown(const Collator& collator, const std::optional<at::Tensor>& selection) {
  return Shown(collator.source()->size(), selection, "molecule");
}

py::tuple collate_indices(const Collator& self, const py::object& indices, const std::optional<at::Tensor>& selection,
                          bool shared) {
  std::vector<int64_t> checked = shown(self, selection).numbers(indices);
  return hand_over(
      without_gil([&] { return self.collate(std::move(checked), shared ? ArenaKind::shared : ArenaKind::heap); }));
}

py::tuple collate_one(const Collator& self, py::handle item, const std::optional<at::Tensor>& selection) {
  const int64_t index = shown(self, selection).number(item);
  return hand_over(without_gil([&] { return self.collate_one(index); }));
}

using Prefetcher = collate::Prefetcher<Batch>;

UniqueHandle<Prefetcher> make_prefetcher(std::shared_ptr<Collator> collator, unsigned n_threads, bool pinned) {
  const ArenaKind kind = pinned ? ArenaKind::pinned : ArenaKind::heap;
  return make_unique_handle<Prefetcher>(n_threads, [collator = std::move(collator), kind](auto& task) {
    task.batch = collator->collate_serially(std::move(task.indices), kind);
  });
}

void ask(Prefetcher& self, const Collator& collator, const py::object& indices,
         const std::optional<at::Tensor>& selection) {
  self.push({shown(collator, selection).numbers(indices)});
}

py::tuple take(Prefetcher& self) { return hand_over(take_interruptibly(self).batch); }

using PyAddress = std::tuple<int64_t, int, uint64_t>;
using PyTicket = std::tuple<PyAddress, uint32_t, uint64_t>;

PyAddress plain(const io::RingAddress& address) { return {address.process, address.fd, address.id}; }
io::RingAddress address_of(const PyAddress& plain) {
  return {std::get<0>(plain), std::get<1>(plain), std::get<2>(plain)};
}

std::optional<PyAddress> ring_to_attach() {
  const auto address = collate::ring_to_attach();
  return address ? std::optional(plain(*address)) : std::nullopt;
}

std::optional<PyTicket> send_arena(const at::Tensor& arena) {
  const auto ticket = collate::send_arena(arena);
  return ticket ? std::optional(PyTicket{plain(ticket->ring), ticket->slot, ticket->number}) : std::nullopt;
}

at::Tensor receive_arena(const PyTicket& ticket, size_t bytes) {
  return collate::receive_arena({address_of(std::get<0>(ticket)), std::get<1>(ticket), std::get<2>(ticket)}, bytes);
}

py::list describe(const FieldTable& table) {
  py::list all;
  for (const auto& head : table.fields()) {
    all.append(py::make_tuple(static_cast<int>(head.id.scope), to_str(head.id.key), name_of(head.level)));
  }
  return all;
}

using PyView = std::tuple<at::ScalarType, size_t, std::vector<int64_t>>;

// Views of an arena that came from another process or went to another device.
std::vector<at::Tensor> view_arena(const at::Tensor& arena, const std::vector<PyView>& places) {
  std::vector<at::Tensor> views;
  views.reserve(places.size());
  for (const auto& [dtype, offset, sizes] : places) {
    views.push_back(collate::view_arena(arena, collate::dtype_of(dtype), offset, sizes));
  }
  return views;
}

// The type that tensors of these types are joined in; nothing where they do not mix.
std::optional<at::ScalarType> common_dtype(const std::vector<at::ScalarType>& types) {
  std::optional<DType> common = collate::dtype_of(types.at(0));
  for (size_t i = 1; common && i < types.size(); ++i) {
    common = collate::common_dtype(*common, collate::dtype_of(types[i]));
  }
  return common ? std::optional(collate::scalar_type_of(*common)) : std::nullopt;
}

}  // namespace

py::tuple hand_over(Batch batch) {
  py::list faults;
  for (const auto& fault : batch.faults) faults.append(py::make_tuple(fault.field, fault.message));
  return py::make_tuple(batch.arena, std::const_pointer_cast<FieldTable>(batch.table), values_of(batch), batch.masks,
                        faults);
}

void bind_collate(py::module_& module) {
  py::class_<FieldTable, std::shared_ptr<FieldTable>>(module, "FieldTable", py::dynamic_attr())
      .def("fields", &describe);
  py::class_<Collator, std::shared_ptr<Collator>>(module, "Collator")
      .def(py::init(unlocked(&make_collator)), py::arg("source"), py::arg("request"))
      .def_property_readonly("table",
                             [](const Collator& self) { return std::const_pointer_cast<FieldTable>(self.table()); })
      .def_property_readonly("request",
                             [](const Collator& self) { return std::const_pointer_cast<Request>(self.request()); })
      .def_property_readonly(
          "source", [](const Collator& self) { return std::const_pointer_cast<MoleculeSource>(self.source()); })
      .def("collate", &collate_indices, py::arg("indices"), py::arg("selection"), py::arg("shared"))
      .def("collate_one", &collate_one, py::arg("index"), py::arg("selection"));
  py::class_<Prefetcher, UniqueHandle<Prefetcher>>(module, "Prefetcher")
      .def(py::init(&make_prefetcher), py::arg("collator"), py::arg("n_threads"), py::arg("pinned"))
      .def("ask", &ask, py::arg("collator"), py::arg("indices"), py::arg("selection"))
      .def("take", &take)
      .def("__len__", &Prefetcher::size);
  module.def("common_dtype", &common_dtype, py::arg("dtypes"));
  module.def(
      "pack_tensors",
      [](const std::vector<at::Tensor>& tensors) {
        std::vector<collate::TensorSpec> specs;
        for (const at::Tensor& one : tensors)
          specs.push_back({collate::dtype_of(one.scalar_type()), one.sizes().vec()});
        collate::ArenaTensors packed = collate::allocate_tensors(specs, ArenaKind::shared);
        for (size_t i = 0; i < tensors.size(); ++i) packed.views[i].copy_(tensors[i]);
        return std::make_tuple(std::move(packed.arena), std::move(packed.views));
      },
      py::arg("tensors"));
  module.def("ring_to_attach", &ring_to_attach);
  module.def(
      "attach_ring", [](const PyAddress& address) { return collate::attach_ring(address_of(address)); },
      py::arg("address"));
  module.def("send_arena", &send_arena, py::arg("arena"));
  module.def("receive_arena", &receive_arena, py::arg("ticket"), py::arg("bytes"));
  module.def("view_arena", &view_arena, py::arg("arena"), py::arg("places"));
  module.def("work_alone", &collate::work_alone);
  module.def("parallel_thread_ids", unlocked(&collate::parallel_thread_ids));
}

}  // namespace atompack::bindings
