#include "formats/atlas_store/metadata/metadata.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace atompack::atlas_store {
namespace {

size_t combine_hash(size_t hash, size_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15U + (hash >> 29); }

size_t hash_of(const Schema& schema) {
  size_t hash = static_cast<size_t>(schema.dtype.element);
  for (const auto& size : schema.dtype.lists) hash = combine_hash(hash, size.value_or(~uint64_t{0}));
  for (const uint64_t size : schema.shape) hash = combine_hash(hash, size);
  hash = combine_hash(hash, schema.shape.size());
  for (const uint64_t size : schema.chunk_shape) hash = combine_hash(hash, size);
  for (const std::string& name : schema.dimension_names) hash = combine_hash(hash, std::hash<std::string_view>()(name));
  return combine_hash(hash, static_cast<size_t>(schema.codec));
}

}  // namespace

std::optional<uint32_t> Metadata::find_dataset(std::string_view name) const {
  const std::optional<uint32_t> number = names_.find(name);
  if (!number || live_of_name_[*number] == kNone) return std::nullopt;
  return live_of_name_[*number];
}

std::optional<uint32_t> Metadata::schema_number(uint32_t dataset, uint32_t variable) const {
  const std::span<const Entry> entries = arrays(dataset);
  const auto found = std::ranges::find(entries, variable, &Entry::variable);
  if (found == entries.end()) return std::nullopt;
  return found->schema;
}

Attribute Metadata::attribute(uint32_t dataset, size_t index) const {
  const StoredAttribute& stored = attributes_[dataset][index];
  const auto typed = [&](const auto& value) -> AttributeValue {
    using Kind = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Kind, std::monostate>) {
      return strings_[stored.text];
    } else if constexpr (std::is_same_v<Kind, Timestamp>) {
      return TimestampValue{value, strings_[stored.text]};
    } else {
      return value;
    }
  };
  return {keys_[stored.key], std::visit(typed, stored.value)};
}

std::optional<AttributeValue> Metadata::find_attribute(uint32_t dataset, std::string_view key) const {
  for (size_t i = 0; i < n_attributes(dataset); ++i) {
    if (const Attribute found = attribute(dataset, i); found.key == key) return found.value;
  }
  return std::nullopt;
}

uint32_t Metadata::add_dataset(std::string_view name) {
  const uint32_t dataset = n_numbers();
  const uint32_t name_number = names_.add(name);
  if (name_number == live_of_name_.size()) live_of_name_.push_back(kNone);
  live_of_name_[name_number] = dataset;
  name_of_.push_back(name_number);
  arrays_.add_list();
  attributes_.add_list();
  return dataset;
}

void Metadata::remove_dataset(uint32_t dataset) {
  live_of_name_[name_of_[dataset]] = kNone;
  arrays_.clear(dataset);
  attributes_.clear(dataset);
}

uint32_t Metadata::add_schema(const Schema& schema) {
  const size_t hash = hash_of(schema);
  const auto [begin, end] = schemas_by_hash_.equal_range(hash);
  const auto found = std::find_if(begin, end, [&](const auto& item) { return schemas_[item.second] == schema; });
  if (found != end) return found->second;
  schemas_by_hash_.emplace(hash, n_schemas());
  schemas_.push_back(schema);
  return n_schemas() - 1;
}

void Metadata::remove_array(uint32_t dataset, uint32_t variable) {
  const std::span<const Entry> entries = arrays(dataset);
  const auto found = std::ranges::find(entries, variable, &Entry::variable);
  if (found != entries.end()) arrays_.erase(dataset, static_cast<size_t>(found - entries.begin()));
}

Metadata::StoredAttribute Metadata::stored(uint32_t key, const AttributeValue& value) {
  const auto to_stored = [&](const auto& given) -> StoredAttribute {
    using Kind = std::decay_t<decltype(given)>;
    if constexpr (std::is_same_v<Kind, std::string_view>) {
      return {key, strings_.add(given), std::monostate()};
    } else if constexpr (std::is_same_v<Kind, TimestampValue>) {
      return {key, strings_.add(given.text), given.at};
    } else {
      return {key, 0, given};
    }
  };
  return std::visit(to_stored, value);
}

void Metadata::add_attribute(uint32_t dataset, uint32_t key, const AttributeValue& value) {
  attributes_.append(dataset, stored(key, value));
}

void Metadata::set_attribute(uint32_t dataset, std::string_view key, const AttributeValue& value) {
  const StoredAttribute attribute = stored(add_key(key), value);
  const std::span<StoredAttribute> present = attributes_[dataset];
  const auto found = std::ranges::find(present, attribute.key, &StoredAttribute::key);
  if (found == present.end()) {
    attributes_.append(dataset, attribute);
  } else {
    *found = attribute;
  }
}

}  // namespace atompack::atlas_store
