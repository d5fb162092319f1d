#include "bindings/bindings.h"

#include "bindings/atlas_metadata.h"
#include "bindings/atlas_values.h"
#include "bindings/errors.h"
#include "bindings/locked.h"
#include "formats/atlas_store/store.h"

namespace atompack::bindings {

// A version in Python: those of the metadata file and of the record of a flush.
ATOMPACK_TUPLE(atlas_store::Version, metadata, intent);

namespace {

using atlas_store::Store;

std::shared_ptr<Store> open_store(const io::Location& path, const std::optional<atlas_store::Version>& version,
                                  uint64_t max_metadata_bytes, const std::shared_ptr<array_file::BlockCache>& cache) {
  return make_shared_handle<Store>(path, version, max_metadata_bytes, cache ? cache : array_file::shared_block_cache());
}

// One object for datasets that follow each other and have the same layout.
py::list arrays_of(const Store& self, uint32_t variable, const std::vector<uint32_t>& datasets) {
  py::list described(datasets.size());
  size_t i = 0;
  for (const auto& [definition, end] : without_gil([&] { return self.definitions(variable, datasets); })) {
    const py::object shared = py::cast(definition);
    for (; i < end; ++i) described[i] = shared;
  }
  return described;
}

py::list keys_in_doubt(const atlas_store::AttributeList& list) {
  py::list keys;
  for (const std::string_view key : list.in_doubt) keys.append(str_from_bytes(key));
  return keys;
}

// Attributes of a dataset, or of one of its arrays.
atlas_store::AttributeList attributes_in(const Store& store, uint32_t dataset, std::optional<uint32_t> variable) {
  store.metadata().check_exists(dataset);
  return without_gil([&] { return variable ? store.attributes(*variable, dataset) : store.attributes(dataset); });
}

}  // namespace

void bind_atlas_reader(py::module_& module) {
  using array_file::BlockCache;
  py::class_<BlockCache, std::shared_ptr<BlockCache>>(module, "BlockCache")
      .def(py::init([](uint64_t limit) { return make_shared_handle<BlockCache>(limit); }), "limit"_a)
      .def_property_readonly("used", unlocked(&BlockCache::used))
      .def_property_readonly("hits", &BlockCache::hits)
      .def_property_readonly("misses", &BlockCache::misses)
      .def("clear", unlocked(&BlockCache::clear));
  py::class_<Store, std::shared_ptr<Store>> reader(module, "AtlasReader");
  bind_metadata(reader, [](const Store& self, const auto& action) { return action(self.metadata()); });
  reader.def(py::init(unlocked(&open_store)), "path"_a, "version"_a, "max_metadata_bytes"_a, "cache"_a = py::none())
      .def_property_readonly("version", &Store::version)
      .def_property_readonly("is_collection", [](const Store& self) { return self.is_collection(); })
      .def_property_readonly("has_array_attributes", &Store::has_array_attributes)
      .def(
          "attributes",
          [](const Store& self, uint32_t dataset, std::optional<uint32_t> variable) {
            return attributes_object(attributes_in(self, dataset, variable).values);
          },
          "dataset"_a, "variable"_a = py::none())
      .def(
          "attributes_in_doubt",
          [](const Store& self, uint32_t dataset, std::optional<uint32_t> variable) {
            return keys_in_doubt(attributes_in(self, dataset, variable));
          },
          "dataset"_a, "variable"_a = py::none())
      .def_property_readonly("warnings", [](const Store& self) { return self.warnings(); })
      .def("array", unlocked(&Store::definition), "variable"_a, "dataset"_a)
      .def("arrays", &arrays_of, "variable"_a, "datasets"_a)
      .def(
          "statistics",
          [](const Store& self, uint32_t variable) {
            return statistics_object(without_gil([&] { return self.statistics(variable); }));
          },
          "variable"_a)
      .def("blocks", unlocked([](const Store& self, uint32_t variable, const std::vector<int64_t>& datasets) {
             return self.blocks(variable, datasets);
           }),
           "variable"_a, "datasets"_a);
  using Verification = Locked<atlas_store::Verification>;
  py::class_<Verification, UniqueHandle<Verification>>(module, "AtlasVerification")
      .def(py::init([](std::shared_ptr<Store> store) { return make_unique_handle<Verification>(std::move(store)); }),
           "store"_a)
      .def("check", locked(&atlas_store::Verification::check), "variable"_a, "dataset"_a);
}

}  // namespace atompack::bindings
