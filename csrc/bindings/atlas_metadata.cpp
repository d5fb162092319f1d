#include "bindings/atlas_metadata.h"

#include <algorithm>

#include "base/excerpt.h"
#include "bindings/atlas_values.h"
#include "bindings/errors.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using atlas_store::Metadata;

template <typename Use>
void for_each_dataset(const Metadata& metadata, const Use& use) {
  for (uint32_t dataset = 0; dataset < metadata.n_numbers(); ++dataset) {
    if (metadata.exists(dataset)) use(dataset);
  }
}

}  // namespace

uint32_t checked(const Metadata& metadata, uint32_t dataset) {
  if (dataset < metadata.n_numbers() && metadata.exists(dataset)) return dataset;
  throw py::index_error(cat("dataset ", dataset, " is out of range for a store of ", metadata.n_numbers()));
}

size_t n_datasets(const Metadata& metadata) {
  size_t n = 0;
  for_each_dataset(metadata, [&](uint32_t) { ++n; });
  return n;
}

py::list dataset_names(const Metadata& metadata) {
  py::list names;
  for_each_dataset(metadata, [&](uint32_t dataset) { names.append(str_from_bytes(metadata.dataset_name(dataset))); });
  return names;
}

py::list variable_names(const Metadata& metadata) {
  py::list names;
  std::vector<bool> is_used(metadata.n_variables(), false);
  for_each_dataset(metadata, [&](uint32_t dataset) {
    for (const atlas_store::Entry& entry : metadata.arrays(dataset)) is_used[entry.variable] = true;
  });
  for (uint32_t i = 0; i < metadata.n_variables(); ++i) {
    names.append(is_used[i] ? py::object(str_from_bytes(metadata.variable_name(i))) : py::object(py::none()));
  }
  return names;
}

std::vector<uint32_t> find_datasets(const Metadata& metadata, const std::vector<std::string>& names) {
  std::vector<uint32_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) {
    const auto number = metadata.find_dataset(name);
    if (!number) throw FieldError(cat("no dataset ", excerpt(name)));
    numbers.push_back(*number);
  }
  return numbers;
}

py::dict attributes_of(const Metadata& metadata, uint32_t dataset) {
  py::dict all;
  for (size_t i = 0; i < metadata.n_attributes(checked(metadata, dataset)); ++i) {
    const atlas_store::Attribute attribute = metadata.attribute(dataset, i);
    all[str_from_bytes(attribute.key)] = attribute_object(attribute.value);
  }
  return all;
}

std::vector<uint32_t> variables_of(const Metadata& metadata, uint32_t dataset) {
  std::vector<uint32_t> variables;
  for (const atlas_store::Entry& entry : metadata.arrays(checked(metadata, dataset))) {
    variables.push_back(entry.variable);
  }
  return variables;
}

std::vector<uint32_t> datasets_with(const Metadata& metadata, uint32_t variable) {
  std::vector<uint32_t> datasets;
  for_each_dataset(metadata, [&](uint32_t dataset) {
    if (metadata.schema_number(dataset, variable)) datasets.push_back(dataset);
  });
  return datasets;
}

}  // namespace atompack::bindings
