#include "bindings/atlas_metadata.h"

#include "bindings/atlas_values.h"
#include "bindings/errors.h"

namespace atompack::bindings {

using atlas_store::Metadata;

py::list dataset_names(const Metadata& metadata) {
  py::list names;
  for (const uint32_t dataset : metadata.datasets()) names.append(str_from_bytes(metadata.dataset_name(dataset)));
  return names;
}

py::list variable_names(const Metadata& metadata) {
  py::list names;
  const std::vector<bool> is_used = metadata.used_variables();
  for (uint32_t i = 0; i < metadata.n_variables(); ++i) {
    names.append(is_used[i] ? py::object(str_from_bytes(metadata.variable_name(i))) : py::object(py::none()));
  }
  return names;
}

py::dict attributes_of(const Metadata& metadata, uint32_t dataset) {
  metadata.check_exists(dataset);
  py::dict all;
  for (size_t i = 0; i < metadata.n_attributes(dataset); ++i) {
    const atlas_store::Attribute attribute = metadata.attribute(dataset, i);
    all[str_from_bytes(attribute.key)] = attribute_object(attribute.value);
  }
  return all;
}

std::vector<uint32_t> variables_of(const Metadata& metadata, uint32_t dataset) {
  metadata.check_exists(dataset);
  std::vector<uint32_t> variables;
  for (const atlas_store::Entry& entry : metadata.arrays(dataset)) variables.push_back(entry.variable);
  return variables;
}

}  // namespace atompack::bindings
