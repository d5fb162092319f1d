// Metadata of a store: its datasets, their arrays and attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/atlas_store/metadata/attribute.h"
#include "formats/atlas_store/metadata/lists.h"
#include "formats/atlas_store/metadata/name_table.h"
#include "formats/atlas_store/metadata/schema.h"

namespace atompack::atlas_store {

// One array of a dataset: the numbers of its variable and schema.
struct Entry {
  uint32_t variable = 0;
  uint32_t schema = 0;
};

// Datasets, variables and schemas are referred to by numbers, so that tens of thousands of datasets take little memory;
// equal schemas are stored once. Datasets are numbered in stored order; the number of a deleted one stays unused. Const
// methods are thread-safe; views are valid until the next change.
class Metadata {
 public:
  codec::Codec codec = codec::Codec::zstd;  // for new blocks
  std::string stamp;                        // written, never read: makes files of equal content differ

  // Upper bound of all dataset numbers, including those of deleted ones.
  uint32_t n_numbers() const { return arrays_.size(); }
  bool exists(uint32_t dataset) const { return live_of_name_[name_of_[dataset]] == dataset; }
  std::string_view dataset_name(uint32_t dataset) const { return names_[name_of_[dataset]]; }
  std::optional<uint32_t> find_dataset(std::string_view name) const;

  uint32_t n_variables() const { return variables_.size(); }
  std::string_view variable_name(uint32_t variable) const { return variables_[variable]; }
  std::optional<uint32_t> find_variable(std::string_view name) const { return variables_.find(name); }

  // In stored order.
  std::span<const Entry> arrays(uint32_t dataset) const { return arrays_[dataset]; }
  // Returns nullopt if the dataset has no such array. Takes time linear in the dataset's arrays.
  std::optional<uint32_t> schema_number(uint32_t dataset, uint32_t variable) const;
  const Schema& schema(uint32_t number) const { return schemas_[number]; }
  uint32_t n_schemas() const { return static_cast<uint32_t>(schemas_.size()); }

  // In stored order.
  size_t n_attributes(uint32_t dataset) const { return attributes_[dataset].size(); }
  Attribute attribute(uint32_t dataset, size_t index) const;
  std::optional<AttributeValue> find_attribute(uint32_t dataset, std::string_view key) const;

  // Deviations between the document and its interpretation.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Changes. Names are not checked; the caller ensures that they are unique.
  uint32_t add_dataset(std::string_view name);
  void remove_dataset(uint32_t dataset);
  uint32_t add_variable(std::string_view name) { return variables_.add(name); }
  uint32_t add_schema(const Schema& schema);
  void add_array(uint32_t dataset, Entry entry) { arrays_.append(dataset, entry); }
  void remove_array(uint32_t dataset, uint32_t variable);
  // Keys are numbered over the whole store.
  uint32_t add_key(std::string_view key) { return keys_.add(key); }
  void add_attribute(uint32_t dataset, uint32_t key, const AttributeValue& value);
  // Adds the attribute, or replaces its value.
  void set_attribute(uint32_t dataset, std::string_view key, const AttributeValue& value);
  void warn(std::string warning) { warnings_.push_back(std::move(warning)); }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct StoredAttribute {
    uint32_t key = 0;
    uint32_t text = 0;                                                     // in texts_, of a string or a timestamp
    std::variant<bool, int64_t, double, Timestamp, std::monostate> value;  // monostate: a string
  };

  StoredAttribute stored(uint32_t key, const AttributeValue& value);

  NameTable names_, variables_, keys_, strings_;
  std::vector<uint32_t> name_of_;       // per dataset
  std::vector<uint32_t> live_of_name_;  // the dataset that currently has each name
  Lists<Entry> arrays_;
  Lists<StoredAttribute> attributes_;
  std::vector<Schema> schemas_;
  std::unordered_multimap<size_t, uint32_t> schemas_by_hash_;
  std::vector<std::string> warnings_;
};

}  // namespace atompack::atlas_store
