// Metadata properties that readers and writers of stores share.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/enum_casters.h"
#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::bindings {

pybind11::list dataset_names(const atlas_store::Metadata& metadata);
// Returns the names of the variables by number; None for variables that no dataset has.
pybind11::list variable_names(const atlas_store::Metadata& metadata);
// Returns the numbers of datasets. Throws FieldError for unknown names.
std::vector<uint32_t> find_datasets(const atlas_store::Metadata& metadata, const std::vector<std::string>& names);
// Returns the number of a dataset; IndexError if there is none.
uint32_t checked(const atlas_store::Metadata& metadata, uint32_t dataset);
pybind11::dict attributes_of(const atlas_store::Metadata& metadata, uint32_t dataset);
// Returns the numbers of the variables of a dataset, in stored order.
std::vector<uint32_t> variables_of(const atlas_store::Metadata& metadata, uint32_t dataset);
// Returns the numbers of the datasets that have a variable.
std::vector<uint32_t> datasets_with(const atlas_store::Metadata& metadata, uint32_t variable);
size_t n_datasets(const atlas_store::Metadata& metadata);

// Binds the properties; `access(handle, action)` calls the action with the metadata of a handle.
template <typename Handle, typename... Options, typename Access>
void bind_metadata(pybind11::class_<Handle, Options...>& handle, const Access& access) {
  namespace py = pybind11;
  using atlas_store::Metadata;
  handle.def("__len__", [access](const Handle& self) { return access(self, n_datasets); })
      .def("dataset_names", [access](const Handle& self) { return access(self, dataset_names); })
      .def("variable_names", [access](const Handle& self) { return access(self, variable_names); })
      .def(
          "find_datasets",
          [access](const Handle& self, const std::vector<std::string>& names) {
            return access(self, [&](const Metadata& metadata) { return find_datasets(metadata, names); });
          },
          py::arg("names"))
      .def(
          "variables_of",
          [access](const Handle& self, uint32_t dataset) {
            return access(self, [&](const Metadata& metadata) { return variables_of(metadata, dataset); });
          },
          py::arg("dataset"))
      .def(
          "datasets_with",
          [access](const Handle& self, uint32_t variable) {
            return access(self, [&](const Metadata& metadata) { return datasets_with(metadata, variable); });
          },
          py::arg("variable"))
      .def_property_readonly("codec", [access](const Handle& self) {
        return access(self, [](const Metadata& metadata) { return metadata.codec; });
      });
}

}  // namespace atompack::bindings
