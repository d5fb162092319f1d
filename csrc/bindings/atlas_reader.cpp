#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include <bit>

#include "bindings/atlas_metadata.h"
#include "bindings/atlas_values.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/locked.h"
#include "bindings/path.h"
#include "formats/atlas_store/store.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::ArrayDefinition;
using atlas_store::Store;

// (device, inode, size, seconds, nanoseconds) of a file, or None
using PyFileVersion = std::optional<std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>>;
// of the metadata file and of the record of a flush
using PyVersion = std::pair<PyFileVersion, PyFileVersion>;

PyFileVersion to_tuple(const std::optional<io::FileVersion>& version) {
  if (!version) return std::nullopt;
  return std::tuple(version->device, version->inode, version->size, version->seconds, version->nanoseconds);
}

std::optional<io::FileVersion> version_of(const PyFileVersion& version) {
  if (!version) return std::nullopt;
  const auto& [device, inode, size, seconds, nanoseconds] = *version;
  return io::FileVersion{device, inode, size, seconds, nanoseconds};
}

std::shared_ptr<Store> open_store(const Path& path, const std::optional<PyVersion>& version,
                                  uint64_t max_metadata_bytes, const std::shared_ptr<io::Store>& files,
                                  const std::shared_ptr<array_file::BlockCache>& cache) {
  std::optional<atlas_store::Version> expected;
  if (version) expected = {version_of(version->first), version_of(version->second)};
  return make_shared_handle<Store>(io::Location(path.bytes, files), expected, max_metadata_bytes,
                                   cache ? cache : array_file::shared_block_cache());
}

ArrayDefinition definition_in(const Store& store, uint32_t variable, uint32_t dataset) {
  ArrayDefinition array = array_file::definition_of(store.array(variable, dataset), store.layers(variable));
  // The metadata have the names as the caller gave them, in any number.
  const auto schema = store.metadata().schema_number(dataset, variable);
  if (schema && store.metadata().schema(*schema).is_complete) {
    array.dimension_names = store.metadata().schema(*schema).dimension_names;
  }
  return array;
}

py::tuple array_of(const Store& self, uint32_t variable, uint32_t dataset) {
  return describe(without_gil([&] { return definition_in(self, variable, dataset); }));
}

// NaN is the same as itself here.
bool is_same_fill(const std::optional<array_file::OwnedFill>& one, const std::optional<array_file::OwnedFill>& other) {
  const auto* const number = one ? std::get_if<double>(&*one) : nullptr;
  const auto* const number2 = other ? std::get_if<double>(&*other) : nullptr;
  if (number == nullptr || number2 == nullptr) return one == other;
  return std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(*number2);
}

bool has_same_layout(const ArrayDefinition& one, const ArrayDefinition& other) {
  return one.type == other.type && one.shape == other.shape && one.chunk_shape == other.chunk_shape &&
         one.dimension_names == other.dimension_names && one.codecs == other.codecs &&
         is_same_fill(one.fill, other.fill);
}

// One object for datasets that follow each other and have the same layout.
py::list arrays_of(const Store& self, uint32_t variable, const std::vector<uint32_t>& datasets) {
  std::vector<ArrayDefinition> layouts;
  std::vector<size_t> starts;  // of each layout
  without_gil([&] {
    for (size_t i = 0; i < datasets.size(); ++i) {
      ArrayDefinition array = definition_in(self, variable, datasets[i]);
      if (!layouts.empty() && has_same_layout(layouts.back(), array)) continue;
      layouts.push_back(std::move(array));
      starts.push_back(i);
    }
  });
  py::list described(datasets.size());
  for (size_t layout = 0; layout < layouts.size(); ++layout) {
    const py::tuple shared = describe(layouts[layout]);
    const size_t end = layout + 1 < starts.size() ? starts[layout + 1] : datasets.size();
    for (size_t i = starts[layout]; i < end; ++i) described[i] = shared;
  }
  return described;
}

py::dict to_dict(const atlas_store::AttributeList& list) {
  py::dict all;
  for (const array_file::Attribute& attribute : list.values) {
    all[str_from_bytes(attribute.key)] = attribute_object(attribute.value);
  }
  return all;
}

py::list keys_in_doubt(const atlas_store::AttributeList& list) {
  py::list keys;
  for (const std::string_view key : list.in_doubt) keys.append(str_from_bytes(key));
  return keys;
}

// Attributes of a dataset, or of one of its arrays.
atlas_store::AttributeList attributes_in(const Store& store, uint32_t dataset, std::optional<uint32_t> variable) {
  checked(store.metadata(), dataset);
  return without_gil([&] { return variable ? store.attributes(*variable, dataset) : store.attributes(dataset); });
}

}  // namespace

void bind_atlas_reader(py::module_& module) {
  using array_file::BlockCache;
  py::class_<BlockCache, std::shared_ptr<BlockCache>>(module, "BlockCache")
      .def(py::init([](uint64_t limit) { return make_shared_handle<BlockCache>(limit); }), py::arg("limit"))
      .def_property_readonly("used", unlocked(&BlockCache::used))
      .def_property_readonly("hits", &BlockCache::hits)
      .def_property_readonly("misses", &BlockCache::misses)
      .def("clear", unlocked(&BlockCache::clear));
  py::class_<Store, std::shared_ptr<Store>> reader(module, "AtlasReader");
  bind_metadata(reader, [](const Store& self, const auto& action) { return action(self.metadata()); });
  reader
      .def(py::init(unlocked(&open_store)), py::arg("path"), py::arg("version"), py::arg("max_metadata_bytes"),
           py::arg("store") = py::none(), py::arg("cache") = py::none())
      .def_property_readonly("version",
                             [](const Store& self) {
                               return PyVersion{to_tuple(self.version().metadata), to_tuple(self.version().intent)};
                             })
      .def_property_readonly("is_collection", [](const Store& self) { return self.is_collection(); })
      .def_property_readonly("has_array_attributes", &Store::has_array_attributes)
      .def(
          "attributes",
          [](const Store& self, uint32_t dataset, std::optional<uint32_t> variable) {
            return to_dict(attributes_in(self, dataset, variable));
          },
          py::arg("dataset"), py::arg("variable") = py::none())
      .def(
          "attributes_in_doubt",
          [](const Store& self, uint32_t dataset, std::optional<uint32_t> variable) {
            return keys_in_doubt(attributes_in(self, dataset, variable));
          },
          py::arg("dataset"), py::arg("variable") = py::none())
      .def_property_readonly("warnings", [](const Store& self) { return self.warnings(); })
      .def("array", &array_of, py::arg("variable"), py::arg("dataset"))
      .def("arrays", &arrays_of, py::arg("variable"), py::arg("datasets"))
      .def(
          "statistics",
          [](const Store& self, uint32_t variable) {
            return statistics_object(without_gil([&] { return self.statistics(variable); }));
          },
          py::arg("variable"))
      .def("blocks", unlocked([](const Store& self, uint32_t variable, const std::vector<int64_t>& datasets) {
             return self.blocks(variable, datasets);
           }),
           py::arg("variable"), py::arg("datasets"));
  using Verification = Locked<atlas_store::Verification>;
  py::class_<Verification, UniqueHandle<Verification>>(module, "AtlasVerification")
      .def(py::init([](std::shared_ptr<Store> store) { return make_unique_handle<Verification>(std::move(store)); }),
           py::arg("store"))
      .def(
          "check",
          [](Verification& self, uint32_t variable, uint32_t dataset) {
            self.use([&](auto& verification) { verification.check(variable, dataset); });
          },
          py::arg("variable"), py::arg("dataset"));
}

}  // namespace atompack::bindings
