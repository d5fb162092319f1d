// Properties that readers and writers of stores share.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::bindings {

pybind11::list dataset_names(const atlas_store::Metadata& metadata);
// Of those that some dataset has; by number, None for the others.
pybind11::list variable_names(const atlas_store::Metadata& metadata);
// Throws FieldError for names that there are not.
std::vector<uint32_t> find_datasets(const atlas_store::Metadata& metadata, const std::vector<std::string>& names);
pybind11::dict attributes_of(const atlas_store::Metadata& metadata, uint32_t dataset);
// The numbers of the variables that a dataset has, in stored order.
std::vector<uint32_t> variables_of(const atlas_store::Metadata& metadata, uint32_t dataset);
// The numbers of the datasets that have a variable.
std::vector<uint32_t> datasets_with(const atlas_store::Metadata& metadata, uint32_t variable);
size_t n_datasets(const atlas_store::Metadata& metadata);

// `Handle` has metadata().
template <typename Handle, typename... Options>
void bind_metadata(pybind11::class_<Handle, Options...>& handle) {
  namespace py = pybind11;
  handle.def("__len__", [](const Handle& self) { return n_datasets(self.metadata()); })
      .def("dataset_names", [](const Handle& self) { return dataset_names(self.metadata()); })
      .def("variable_names", [](const Handle& self) { return variable_names(self.metadata()); })
      .def(
          "find_datasets",
          [](const Handle& self, const std::vector<std::string>& names) {
            return find_datasets(self.metadata(), names);
          },
          py::arg("names"))
      .def(
          "attributes", [](const Handle& self, uint32_t dataset) { return attributes_of(self.metadata(), dataset); },
          py::arg("dataset"))
      .def(
          "variables_of", [](const Handle& self, uint32_t dataset) { return variables_of(self.metadata(), dataset); },
          py::arg("dataset"))
      .def(
          "datasets_with",
          [](const Handle& self, uint32_t variable) { return datasets_with(self.metadata(), variable); },
          py::arg("variable"))
      .def_property_readonly("codec", [](const Handle& self) { return codec::name_of(self.metadata().codec); });
}

}  // namespace atompack::bindings
