#include "bindings/bindings.h"

#include "bindings/locked.h"
#include "bindings/plain_arrays.h"
#include "formats/torch_cache/build/builder.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(torch_cache::Manifest, descriptor_class, config_json, config_sha256);
ATOMPACK_TUPLE(torch_cache::CacheHeader, features, force_derivatives, storage, n_features, n_radial, n_angular, multi,
               compat_json, compat_sha256, manifest, source_id, source_kind);
ATOMPACK_TUPLE(torch_cache::LabelColumn<double>, values, present);
ATOMPACK_TUPLE(torch_cache::LabelColumn<bool>, values, present);
ATOMPACK_TUPLE(torch_cache::DerivativeColumns, edge_ptr, triplet_ptr, columns);
ATOMPACK_TUPLE(torch_cache::EntryColumns, ptr, positions, atomic_numbers, energy, forces, cell, pbc, names, features,
               derivatives, storage);

}  // namespace atompack::bindings

template <>
struct pybind11::detail::type_caster<atompack::torch_cache::ValueColumn> {
  PYBIND11_TYPE_CASTER(atompack::torch_cache::ValueColumn, const_name("numpy.ndarray | None"));

  bool load(handle source, bool) {
    if (source.is_none()) return true;
    if (!isinstance<array>(source)) return false;
    const auto given = reinterpret_borrow<array>(source);
    const ssize_t n_rows = given.ndim() == 0 ? 0 : given.shape(0);
    if (!atompack::bindings::is_plain(given)) return false;
    value = {static_cast<const std::byte*>(given.data()), atompack::bindings::dtype_of(given),
             n_rows == 0 ? 1 : static_cast<size_t>(given.size() / n_rows)};
    return true;
  }
};

namespace atompack::bindings {

void bind_cache_builder(py::module_& module) {
  using torch_cache::Builder;
  using torch_cache::EncodedEntries;
  py::class_<EncodedEntries>(module, "EncodedEntries").def_property_readonly("n_bytes", [](const EncodedEntries& self) {
    return self.bytes.size();
  });
  module.def("encode_cache_entries", unlocked(&torch_cache::encode_entries), "columns"_a);
  using Self = Locked<Builder>;
  py::class_<Self, UniqueHandle<Self>>(module, "CacheBuilder")
      .def(py::init(constructor<UniqueHandle<Self>, Path, torch_cache::CacheHeader, std::string, uint64_t>()), "path"_a,
           "header"_a, "fingerprint"_a, "checkpoint_bytes"_a)
      .def("__len__", locked(&Builder::n_entries))
      .def("append", locked(&Builder::append), "entries"_a)
      .def("absorb", locked_as<Builder, void, const Path&, const std::string&, size_t>(&Builder::absorb), "part"_a,
           "fingerprint"_a, "n_known"_a = 0)
      .def("checkpoint", locked(&Builder::checkpoint))
      .def("finish", locked(&Builder::finish))
      .def("discard", locked(&Builder::discard))
      .def("close", [](Self& self) { self.close([](Builder&) {}); });
}

}  // namespace atompack::bindings
