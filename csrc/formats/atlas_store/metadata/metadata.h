// Metadata of a store: its datasets, their arrays and attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"
#include "formats/atlas_store/metadata/timestamp.h"

namespace atompack::atlas_store {

// Names of datasets and arrays, and the folders of arrays (FORMAT.md, "Names").

// Throw FieldError for invalid names of new datasets and arrays.
void check_dataset_name(std::string_view name);
void check_array_name(std::string_view name);

// True if the original can read what it writes under this name; only then can it be written to.
bool is_safe_array_name(std::string_view name);

// Returns the folder of an array below the store, with the characters that the original escapes. Throws
// CorruptFileError for names that cannot be a folder.
std::string folder_of_array(std::string_view name);

// Returns the folder where the original puts newer layers of arrays with such characters, escaped twice; it does not
// find them again. Same as folder_of_array() for other names.
std::string lost_folder_of_array(std::string_view name);

// Strings numbered in order of first appearance.

// All characters are in one buffer, so that tens of thousands of names do not need as many allocations. Const methods
// are thread-safe.
class NameTable {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // Valid until the next add().
  std::string_view operator[](uint32_t number) const;
  std::optional<uint32_t> find(std::string_view name) const;
  // Returns the name's number, a new one if needed. Throws FieldError when 4 GiB are full.
  uint32_t add(std::string_view name);

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;  // counted from one; 0: free
  };

  // The slot that holds the name, or the free slot for it.
  size_t slot_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::string characters_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
};

// Many short lists in one vector.

// A list that grows but is not last moves to the end of the vector; the gaps are removed when they outweigh what is in
// use. Const methods are thread-safe.
template <typename T>
class Lists {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ranges_.size()); }
  // Valid until the next change.
  std::span<const T> operator[](uint32_t list) const { return {items_.data() + ranges_[list].begin, ranges_[list].n}; }
  std::span<T> operator[](uint32_t list) { return {items_.data() + ranges_[list].begin, ranges_[list].n}; }

  void add_list() { ranges_.push_back({items_.size(), 0}); }

  void append(uint32_t list, const T& item) {
    Range& range = ranges_[list];
    if (range.begin + range.n != items_.size()) move_to_end(range);
    items_.push_back(item);
    ++range.n;
  }

  // Later items move up.
  void erase(uint32_t list, size_t index) {
    Range& range = ranges_[list];
    std::move(items_.begin() + range.begin + index + 1, items_.begin() + range.begin + range.n,
              items_.begin() + range.begin + index);
    --range.n;
    ++n_unused_;
  }

  void clear(uint32_t list) {
    n_unused_ += ranges_[list].n;
    ranges_[list].n = 0;
  }

 private:
  struct Range {
    size_t begin = 0, n = 0;
  };

  void move_to_end(Range& range) {
    if (n_unused_ > items_.size() / 2) compact();
    n_unused_ += range.n;
    items_.reserve(items_.size() + range.n + 1);
    const size_t begin = items_.size();
    items_.insert(items_.end(), items_.begin() + range.begin, items_.begin() + range.begin + range.n);
    range.begin = begin;
  }

  void compact() {
    std::vector<T> items;
    items.reserve(items_.size() - n_unused_);
    for (Range& range : ranges_) {
      const size_t begin = items.size();
      items.insert(items.end(), items_.begin() + range.begin, items_.begin() + range.begin + range.n);
      range.begin = begin;
    }
    items_ = std::move(items);
    n_unused_ = 0;
  }

  std::vector<T> items_;
  std::vector<Range> ranges_;
  size_t n_unused_ = 0;
};

// Attributes of datasets: bool, int64, float64, strings and timestamps.

// A timestamp with its original spelling, which is kept; empty if canonical.
struct TimestampValue {
  Timestamp at;
  std::string_view text;
};

// Strings are views of the caller's data or of the metadata.
using AttributeValue = std::variant<bool, int64_t, double, std::string_view, TimestampValue>;

// The same value as array files hold it.
inline array_file::AttributeValue to_array_value(const AttributeValue& value) {
  const auto typed = []<typename T>(const T& held) -> array_file::AttributeValue {
    if constexpr (std::is_same_v<T, TimestampValue>) {
      return held.at;
    } else {
      return held;
    }
  };
  return std::visit(typed, value);
}

struct Attribute {
  std::string_view key;
  AttributeValue value;
};

// Schema of one array in the metadata.

// Element type of an array, with the lists that wrap each value.
struct DataType {
  array_file::Type element = array_file::Type::boolean;
  std::vector<std::optional<uint64_t>> lists;  // outermost first; with a size if all have the same length

  // The type in the array's own file.
  array_file::Type type() const {
    if (lists.empty()) return element;
    return lists.front() ? array_file::Type::fixed_list : array_file::Type::list;
  }
  bool operator==(const DataType&) const = default;
};

struct Schema {
  DataType dtype;
  std::vector<uint64_t> shape, chunk_shape;
  std::vector<std::string> dimension_names;  // as given, not necessarily one per axis
  codec::Codec codec = codec::Codec::zstd;   // of the store when the array was defined
  bool is_complete = true;                   // false: only the dtype is known, the rest is in the array's file

  bool operator==(const Schema&) const = default;
};

// One array of a dataset: the numbers of its variable and schema.
struct Entry {
  uint32_t variable = 0;
  uint32_t schema = 0;
};

// An attribute whose value is in an array file.
struct DeclaredAttribute {
  std::string key;
  DataType type;
};

// Shared by several datasets of versions 2 and 3, or of a collection.
struct DatasetSchema {
  std::vector<Entry> arrays;
  std::vector<DeclaredAttribute> attributes;
  std::vector<std::pair<uint32_t, std::vector<DeclaredAttribute>>> array_attributes;  // by variable
};

// The variable whose file holds the attributes of datasets.
inline constexpr std::string_view kStoreAttributes = "_global", kCollectionAttributes = "_datasets";

// Datasets, variables and schemas are referred to by numbers, so that tens of thousands of datasets take little memory;
// equal schemas are stored once. Datasets are numbered in stored order; the number of a deleted one stays unused. Const
// methods are thread-safe; views are valid until the next change.
class Metadata {
 public:
  codec::Codec codec = codec::Codec::zstd;  // for new blocks
  std::string stamp;                        // written, never read: makes files of equal content differ
  uint64_t version = 1;
  std::optional<uint32_t> attribute_variable;  // that holds the attributes of datasets; only with dataset schemas

  // Upper bound of all dataset numbers, including those of deleted ones.
  uint32_t n_numbers() const { return arrays_.size(); }
  bool exists(uint32_t dataset) const { return live_of_name_[name_of_[dataset]] == dataset; }
  std::string_view dataset_name(uint32_t dataset) const { return names_[name_of_[dataset]]; }
  std::optional<uint32_t> find_dataset(std::string_view name) const;
  // Numbers of datasets by name. Throws FieldError for unknown names.
  std::vector<uint32_t> find_datasets(std::span<const std::string> names) const;
  // Numbers of all datasets, or of those with a variable.
  std::vector<uint32_t> datasets() const;
  std::vector<uint32_t> datasets_with(uint32_t variable) const;
  // Throws std::out_of_range if there is no dataset of this number.
  void check_exists(uint32_t dataset) const;

  uint32_t n_variables() const { return variables_.size(); }
  std::string_view variable_name(uint32_t variable) const { return variables_[variable]; }
  std::optional<uint32_t> find_variable(std::string_view name) const { return variables_.find(name); }

  // By number: false for variables that no dataset has.
  std::vector<bool> used_variables() const;

  // In stored order.
  std::span<const Entry> arrays(uint32_t dataset) const {
    if (const DatasetSchema* const schema = dataset_schema(dataset)) return schema->arrays;
    return arrays_[dataset];
  }
  // Returns nullptr for datasets of versions 0 and 1.
  const DatasetSchema* dataset_schema(uint32_t dataset) const {
    return dataset < schema_of_.size() ? &dataset_schemas_[schema_of_[dataset]] : nullptr;
  }
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
  // Returns nullopt if the name is taken.
  std::optional<uint32_t> add_new_dataset(std::string_view name);
  // Either all datasets have such a schema, or none has. Throws CorruptFileError if the name is taken or there is no
  // such schema.
  void add_dataset(std::string_view name, uint64_t dataset_schema);
  size_t n_dataset_schemas() const { return dataset_schemas_.size(); }
  const DatasetSchema& dataset_schema_at(uint64_t number) const { return dataset_schemas_[number]; }
  void add_dataset_schema(DatasetSchema schema) { dataset_schemas_.push_back(std::move(schema)); }
  void remove_dataset(uint32_t dataset);
  uint32_t add_variable(std::string_view name) { return variables_.add(name); }
  uint32_t add_schema(const Schema& schema);
  void add_array(uint32_t dataset, Entry entry) { arrays_.append(dataset, entry); }
  // Adds the arrays of another dataset.
  void copy_arrays(uint32_t from, uint32_t dataset);
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
  std::vector<DatasetSchema> dataset_schemas_;
  std::vector<uint32_t> schema_of_;  // per dataset
  std::vector<Schema> schemas_;
  std::unordered_multimap<size_t, uint32_t> schemas_by_hash_;
  std::vector<std::string> warnings_;
};

}  // namespace atompack::atlas_store
