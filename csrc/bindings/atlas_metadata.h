// Metadata properties that readers and writers of stores share.
#pragma once

#include "bindings/bindings.h"
#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::bindings {

py::list dataset_names(const atlas_store::Metadata& metadata);
// Returns the names of the variables by number; None for variables that no dataset has.
py::list variable_names(const atlas_store::Metadata& metadata);
py::dict attributes_of(const atlas_store::Metadata& metadata, uint32_t dataset);
// Returns the numbers of the variables of a dataset, in stored order.
std::vector<uint32_t> variables_of(const atlas_store::Metadata& metadata, uint32_t dataset);

// Binds the properties; `access(handle, action)` calls the action with the metadata of a handle.
template <typename Handle, typename... Options, typename Access>
void bind_metadata(py::class_<Handle, Options...>& handle, const Access& access) {
  using atlas_store::Metadata;
  // Returns a method that calls an action with the metadata and an argument.
  const auto with = [access]<typename Argument>(auto action, Argument) {
    return [access, action](const Handle& self, const Argument& argument) {
      return access(self, [&](const Metadata& metadata) { return action(metadata, argument); });
    };
  };
  const auto find = [](const Metadata& metadata, const auto& names) { return metadata.find_datasets(names); };
  const auto with_variable = [](const Metadata& metadata, uint32_t number) { return metadata.datasets_with(number); };
  const auto count = [](const Metadata& metadata) { return metadata.datasets().size(); };
  handle.def("__len__", [access, count](const Handle& self) { return access(self, count); })
      .def("dataset_names", [access](const Handle& self) { return access(self, dataset_names); })
      .def("variable_names", [access](const Handle& self) { return access(self, variable_names); })
      .def("find_datasets", with(find, std::vector<std::string>()), "names"_a)
      .def("variables_of", with(variables_of, uint32_t()), "dataset"_a)
      .def("datasets_with", with(with_variable, uint32_t()), "variable"_a)
      .def_property_readonly("codec", [access](const Handle& self) {
        return access(self, [](const Metadata& metadata) { return metadata.codec; });
      });
}

}  // namespace atompack::bindings
