#include "bindings/bindings.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "base/utf8.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "formats/torch_cache/reader.h"
#include "formats/torch_cache/source.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using torch_cache::Attributes;
using torch_cache::Cache;
using torch_cache::CacheSource;
using torch_cache::Column;
using torch_cache::DerivativeRow;
using torch_cache::DerivativeSchema;
using torch_cache::EntryLabels;
using torch_cache::EntryParts;
using torch_cache::FeatureRow;
using torch_cache::View;

int64_t checked(const Cache& cache, int64_t entry) {
  if (entry < 0 || entry >= cache.n_entries()) {
    throw std::out_of_range(cat(cache.path(), ": entry ", entry, " of ", cache.n_entries()));
  }
  return entry;
}

py::dict dict_of(const Cache& cache, const Attributes& attributes) {
  py::dict all;
  for (const auto& [name, value] : attributes) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr && !is_utf8(as_bytes(*text))) {
      throw CorruptFileError(cat("attribute '", name, "': expected UTF-8, got other bytes")).in_file(cache.path());
    }
    all[py::str(name)] = py::cast(value);
  }
  return all;
}

py::object dict_or_none(const Cache& cache, const std::optional<Attributes>& attributes) {
  return attributes ? py::object(dict_of(cache, *attributes)) : py::none();
}

// {group name: attributes under the file's own names, or None if the group is missing}
py::dict info_of(const Cache& cache) {
  using namespace py::literals;
  const torch_cache::Info& info = cache.info();
  return py::dict("root"_a = dict_of(cache, info.root), "descriptor_manifest"_a = dict_or_none(cache, info.manifest),
                  "torch_cache"_a = dict_or_none(cache, info.cache),
                  "force_derivatives"_a = dict_or_none(cache, info.force_derivatives));
}

py::array copy_of(const View& view, const std::vector<int64_t>& shape) {
  const py::array array(py::dtype(std::string(name_of(view.dtype))), shape);
  if (!view.bytes.empty()) std::memcpy(const_cast<void*>(array.data()), view.bytes.data(), view.bytes.size());
  return array;
}

py::object load_features(const Cache& cache, int64_t entry) {
  const std::optional<FeatureRow> row = without_gil([&] {
    cache.prepare();
    return cache.features(checked(cache, entry));
  });
  if (!row) return py::none();
  return copy_of(row->values, {row->n_atoms, row->n_features});
}

std::vector<int64_t> shape_of(Column column, const DerivativeRow& row, const DerivativeSchema& schema) {
  const bool is_radial = column <= Column::radial_neighbor_typespin;
  const int64_t rows = is_radial ? row.sizes.n_edges : row.sizes.n_triplets;
  switch (column) {
    case Column::radial_dG_drij:
      return {rows, schema.n_radial, 3};
    case Column::angular_grads_i:
    case Column::angular_grads_j:
    case Column::angular_grads_k:
      return {rows, schema.n_angular, 3};
    case Column::radial_neighbor_typespin:
    case Column::angular_triplet_typespin:
      return {schema.multi ? rows : 0};
    default:
      return {rows};
  }
}

py::object load_force_derivatives(const Cache& cache, int64_t entry) {
  const std::optional<DerivativeRow> row = without_gil([&] {
    cache.prepare();
    std::optional<DerivativeRow> found = cache.derivatives(checked(cache, entry));
    if (found) cache.check_indices(entry, *found);
    return found;
  });
  if (!row) return py::none();
  py::dict all;
  for (size_t i = 0; i < torch_cache::kNumberOfColumns; ++i) {
    const auto column = static_cast<Column>(i);
    all[torch_cache::place_of(column).key] = copy_of((*row)[column], shape_of(column, *row, cache.derivative_schema()));
  }
  return all;
}

py::object derivative_sizes(const Cache& cache, int64_t entry) {
  const auto sizes = without_gil([&] { return cache.derivative_sizes(checked(cache, entry)); });
  if (!sizes) return py::none();
  return py::make_tuple(sizes->n_edges, sizes->n_triplets);
}

py::bytes structure_of(const Cache& cache, int64_t entry) {
  return py::bytes(without_gil([&] {
    cache.prepare();
    return std::string(as_text(cache.structure(checked(cache, entry))));
  }));
}

// (display_name, name, source_id, source_kind, frame_idx), strings as bytes
py::tuple labels_of(const Cache& cache, int64_t entry) {
  const EntryLabels found = without_gil([&] { return cache.labels(checked(cache, entry), 1).front(); });
  return py::make_tuple(py::bytes(found.display_name), py::bytes(found.name), py::bytes(found.source_id),
                        py::bytes(found.source_kind), found.frame_idx);
}

// (device, inode, size)
using PyIdentity = std::tuple<uint64_t, uint64_t, uint64_t>;

std::shared_ptr<Cache> open_cache(const Path& path, const std::optional<PyIdentity>& identity, bool by_reading,
                                  const std::string& name) {
  torch_cache::OpenOptions options;
  options.name = name;
  if (by_reading) options.access = io::Access::read;
  if (identity) options.expected = {std::get<0>(*identity), std::get<1>(*identity), std::get<2>(*identity)};
  return make_shared_handle<Cache>(path.bytes, options);
}

py::array atom_counts(const Cache& cache) {
  const std::span<const int64_t> counts = cache.n_atoms();
  return py::array_t<int64_t>(std::ssize(counts), counts.data());
}

// Returns the indices of the entries with forces.
std::vector<int64_t> force_entries(const Cache& cache) {
  std::vector<int64_t> found;
  for (int64_t entry = 0; entry < cache.n_entries(); ++entry) {
    if (cache.has_forces(entry)) found.push_back(entry);
  }
  return found;
}

}  // namespace

void bind_torch_cache(py::module_& module) {
  py::class_<Cache, std::shared_ptr<Cache>>(module, "TorchCacheReader")
      .def(py::init(unlocked(&open_cache)), py::arg("path"), py::arg("identity") = std::nullopt,
           py::arg("by_reading") = false, py::arg("name") = "")
      .def_property_readonly("identity",
                             [](const Cache& self) {
                               const io::FileIdentity& identity = self.identity();
                               return PyIdentity{identity.device, identity.inode, identity.size};
                             })
      .def("atom_counts", &atom_counts)
      .def("force_entries", unlocked(&force_entries))
      .def("__len__", &Cache::n_entries)
      .def_property_readonly("info", &info_of)
      .def_property_readonly("is_legacy", &Cache::is_legacy)
      .def_property_readonly("has_features", &Cache::has_features)
      .def_property_readonly("has_force_derivatives", &Cache::has_force_derivatives)
      .def_property_readonly("lacks_features", &Cache::lacks_features)
      .def_property_readonly("lacks_derivatives", &Cache::lacks_derivatives)
      .def_property_readonly("n_features", &Cache::n_features)
      .def_property_readonly("n_radial", [](const Cache& self) { return self.derivative_schema().n_radial; })
      .def_property_readonly("n_angular", [](const Cache& self) { return self.derivative_schema().n_angular; })
      .def_property_readonly("multi", [](const Cache& self) { return self.derivative_schema().multi; })
      .def("require_descriptor", unlocked(&Cache::require_descriptor), py::arg("compat_json"))
      .def("n_atoms", [](const Cache& self, int64_t entry) { return self.n_atoms(checked(self, entry)); })
      .def("energy", [](const Cache& self, int64_t entry) { return self.energy(checked(self, entry)); })
      .def("has_forces", [](const Cache& self, int64_t entry) { return self.has_forces(checked(self, entry)); })
      .def("structure", &structure_of, py::arg("entry"))
      .def("labels", &labels_of, py::arg("entry"))
      .def("derivative_sizes", &derivative_sizes, py::arg("entry"))
      .def("load_features", &load_features, py::arg("entry"))
      .def("load_force_derivatives", &load_force_derivatives, py::arg("entry"));
  py::class_<CacheSource, MoleculeSource, std::shared_ptr<CacheSource>>(module, "TorchCacheSource")
      .def(py::init(unlocked([](std::shared_ptr<Cache> cache, bool whole) {
             return make_shared_handle<CacheSource>(std::move(cache), whole ? EntryParts::whole : EntryParts::rows);
           })),
           py::arg("cache"), py::kw_only(), py::arg("whole"));
}

}  // namespace atompack::bindings
