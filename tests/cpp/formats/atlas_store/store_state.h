// All that a reader sees of a store, to be compared.
#pragma once

#include <nlohmann/json.hpp>

#include "formats/array_file/read/reader.h"
#include "formats/atlas_store/store.h"

namespace atompack::test {

inline nlohmann::ordered_json value_of(const atlas_store::AttributeValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, atlas_store::TimestampValue>) {
          return atlas_store::format_timestamp(held.at);
        } else {
          return held;
        }
      },
      value);
}

inline nlohmann::ordered_json values_of(const array_file::Reader& reader, std::string_view dataset) {
  const array_file::Array array = reader.array(dataset);
  array_file::DecodedBlock last;
  const array_file::Box box = array.whole();
  if (array_file::item_bytes(array.type) == 0) {
    std::vector<std::string> texts(box.n_elements());
    reader.read(array, box, texts, last);
    return texts;
  }
  std::vector<int32_t> numbers(box.n_elements());
  reader.read(array, box, std::as_writable_bytes(std::span(numbers)), last);
  return numbers;
}

// Numbers must be int32.
inline nlohmann::ordered_json state_of(const io::Location& store) {
  using nlohmann::ordered_json;
  const atlas_store::Snapshot snapshot = atlas_store::read_snapshot(store);
  const atlas_store::Metadata& metadata = snapshot.metadata;
  ordered_json state = ordered_json::object();
  for (uint32_t i = 0; i < metadata.n_numbers(); ++i) {
    ordered_json& dataset = state[std::string(metadata.dataset_name(i))] = ordered_json::object();
    for (size_t j = 0; j < metadata.n_attributes(i); ++j) {
      const atlas_store::Attribute attribute = metadata.attribute(i, j);
      dataset["attributes"][std::string(attribute.key)] = value_of(attribute.value);
    }
    for (const atlas_store::Entry& entry : metadata.arrays(i)) {
      const array_file::Reader reader(snapshot.variables[entry.variable].layers);
      dataset["arrays"][std::string(metadata.variable_name(entry.variable))] =
          values_of(reader, metadata.dataset_name(i));
    }
  }
  return state;
}

}  // namespace atompack::test
