#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "formats/torch_cache/reader.h"
#include "formats/torch_cache/source.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(torch_cache::DerivativeSizes, n_edges, n_triplets);

namespace {

using torch_cache::Attributes;
using torch_cache::Cache;
using torch_cache::CacheSource;
using torch_cache::Column;
using torch_cache::DerivativeRow;
using torch_cache::EntryParts;
using torch_cache::FeatureRow;
using torch_cache::View;

// Reads of an entry, without the GIL.
template <typename Read>
auto read_entry(const Cache& cache, int64_t entry, const Read& read) {
  return without_gil([&] {
    cache.check_entry(entry);
    cache.prepare();
    return read();
  });
}

py::dict dict_of(const Cache& cache, const Attributes& attributes) {
  in_file(cache.path(), [&] { torch_cache::check_text(attributes); });
  py::dict all;
  for (const auto& [name, value] : attributes) all[py::str(name)] = py::cast(value);
  return all;
}

py::object dict_or_none(const Cache& cache, const std::optional<Attributes>& attributes) {
  return attributes ? py::object(dict_of(cache, *attributes)) : py::none();
}

// {group name: attributes under the file's own names, or None if the group is missing}
py::dict info_of(const Cache& cache) {
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
  const std::optional<FeatureRow> row = read_entry(cache, entry, [&] { return cache.features(entry); });
  if (!row) return py::none();
  return copy_of(row->values, {row->n_atoms, row->n_features});
}

py::object load_force_derivatives(const Cache& cache, int64_t entry) {
  const std::optional<DerivativeRow> row = read_entry(cache, entry, [&] {
    std::optional<DerivativeRow> found = cache.derivatives(entry);
    if (found) cache.check_indices(entry, *found);
    return found;
  });
  if (!row) return py::none();
  py::dict all;
  for (size_t i = 0; i < torch_cache::kNumberOfColumns; ++i) {
    const auto column = static_cast<Column>(i);
    all[torch_cache::place_of(column).key] = copy_of((*row)[column], row->shape(column, cache.derivative_schema()));
  }
  return all;
}

std::shared_ptr<Cache> open_cache(const Path& path, const std::optional<io::FileIdentity>& identity, bool by_reading,
                                  const std::string& name) {
  const io::Access access = by_reading ? io::Access::read : io::Access::automatic;
  return make_shared_handle<Cache>(
      path.bytes, torch_cache::OpenOptions{.access = access, .populate = false, .expected = identity, .name = name});
}

// Returns a function for def() that calls `function` with an entry that exists.
template <typename Function>
auto of_entry(Function function) {
  return [function](const Cache& cache, int64_t entry) {
    cache.check_entry(entry);
    return std::invoke(function, cache, entry);
  };
}

py::array atom_counts(const Cache& cache) {
  const std::span<const int64_t> counts = cache.n_atoms();
  return py::array_t<int64_t>(std::ssize(counts), counts.data());
}

}  // namespace

void bind_torch_cache(py::module_& module) {
  py::class_<Cache, std::shared_ptr<Cache>>(module, "TorchCacheReader")
      .def(py::init(unlocked(&open_cache)), "path"_a, "identity"_a = std::nullopt, "by_reading"_a = false,
           "name"_a = "")
      .def_property_readonly("identity", &Cache::identity)
      .def("atom_counts", &atom_counts)
      .def("force_entries", unlocked(&Cache::entries_with_forces))
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
      .def("n_atoms", of_entry([](const Cache& self, int64_t entry) { return self.n_atoms(entry); }))
      .def("energy", of_entry(&Cache::energy))
      .def("has_forces", of_entry(&Cache::has_forces))
      .def("derivative_sizes", of_entry(&Cache::derivative_sizes), "entry"_a)
      .def("load_features", &load_features, "entry"_a)
      .def("load_force_derivatives", &load_force_derivatives, "entry"_a);
  py::class_<CacheSource, MoleculeSource, std::shared_ptr<CacheSource>>(module, "TorchCacheSource")
      .def(py::init(unlocked([](std::shared_ptr<Cache> cache, bool whole) {
             return make_shared_handle<CacheSource>(std::move(cache), whole ? EntryParts::whole : EntryParts::rows);
           })),
           "cache"_a, py::kw_only(), "whole"_a);
}

}  // namespace atompack::bindings
