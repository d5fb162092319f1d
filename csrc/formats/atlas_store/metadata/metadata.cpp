#include "formats/atlas_store/metadata/metadata.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "base/ascii.h"
#include "base/error.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {
namespace {

bool is_letter_or_digit(char c) { return is_digit(c) || is_upper(c) || is_lower(c); }

bool is_safe(char c) {
  constexpr std::string_view kOthers = " !$&'()+,-.:;=@_";
  return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
}

// Characters that are escaped in names of folders.
bool is_escaped(char c) {
  constexpr std::string_view kEscaped = "\"#%*<>?[\\]^`{|}~";
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code >= 0x7F || kEscaped.find(c) != std::string_view::npos;
}

std::string escaped(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string folder;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (is_escaped(c)) {
      folder += {'%', kDigits[code >> 4], kDigits[code & 15]};
    } else {
      folder += c;
    }
  }
  return folder;
}

bool is_folder_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

[[noreturn]] void refuse(std::string_view what, std::string_view expected, std::string_view name) {
  throw FieldError(cat(what, ": expected ", expected, ", got ", excerpt(name)));
}

void check_name(std::string_view what, std::string_view name) {
  if (!is_utf8(as_bytes(name))) refuse(what, "UTF-8", name);
  if (!is_folder_name(name)) refuse(what, "a non-empty name other than '.' and '..', without '/'", name);
  if (name.front() == '_') refuse(what, "a name that does not begin with '_'", name);
}

uint32_t hash_of(std::string_view name) { return static_cast<uint32_t>(std::hash<std::string_view>()(name)); }

size_t combine_hash(size_t hash, size_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15U + (hash >> 29); }

size_t hash_of(const Schema& schema) {
  size_t hash = static_cast<size_t>(schema.dtype.element);
  for (const auto& size : schema.dtype.lists) hash = combine_hash(hash, size.value_or(~uint64_t{0}));
  for (const uint64_t size : schema.shape) hash = combine_hash(hash, size);
  hash = combine_hash(hash, schema.shape.size());
  for (const uint64_t size : schema.chunk_shape) hash = combine_hash(hash, size);
  for (const std::string& name : schema.dimension_names) hash = combine_hash(hash, std::hash<std::string_view>()(name));
  return combine_hash(combine_hash(hash, static_cast<size_t>(schema.codec)), schema.is_complete ? 1 : 0);
}

}  // namespace

void check_dataset_name(std::string_view name) { check_name("dataset name", name); }

bool is_safe_array_name(std::string_view name) { return std::ranges::all_of(name, is_safe); }

void check_array_name(std::string_view name) {
  constexpr std::string_view kWhat = "array name";
  constexpr size_t kMaxBytes = 255;
  check_name(kWhat, name);
  if (!is_safe_array_name(name)) {
    refuse(kWhat,
           "only ASCII letters, digits, spaces and ! $ & ' ( ) + , - . : ; = @ _, since atlas-python loses the values "
           "of arrays with other characters",
           name);
  }
  if (name.front() == '.') refuse(kWhat, "a name that does not begin with '.'", name);
  if (name.size() > kMaxBytes) refuse(kWhat, cat("at most ", kMaxBytes, " bytes"), name);
  if (std::ranges::find(kFileNames, name) != kFileNames.end())
    refuse(kWhat, "a name other than those of metadata files", name);
}

std::string folder_of_array(std::string_view name) {
  if (!is_folder_name(name)) throw_corrupt("array name: expected the name of a folder, got ", excerpt(name));
  return escaped(name);
}

std::string lost_folder_of_array(std::string_view name) { return escaped(folder_of_array(name)); }

std::string_view NameTable::operator[](uint32_t number) const {
  const uint32_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(characters_).substr(begin, ends_[number] - begin);
}

std::optional<uint32_t> NameTable::find(std::string_view name) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(name, hash_of(name))];
  if (slot.number == 0) return std::nullopt;
  return slot.number - 1;
}

uint32_t NameTable::add(std::string_view name) {
  if (2 * ends_.size() >= slots_.size()) grow();
  const uint32_t hash = hash_of(name);
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.number == 0) {
    if (name.size() > std::numeric_limits<uint32_t>::max() - characters_.size()) {
      throw FieldError("names: expected less than 4 GiB, got more");
    }
    characters_ += name;
    ends_.push_back(static_cast<uint32_t>(characters_.size()));
    slot = {hash, size()};
  }
  return slot.number - 1;
}

size_t NameTable::slot_of(std::string_view name, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].number != 0 && (slots_[at].hash != hash || (*this)[slots_[at].number - 1] != name)) {
    at = (at + 1) & mask;
  }
  return at;
}

void NameTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? 16 : 2 * old.size(), {});
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

std::optional<uint32_t> Metadata::find_dataset(std::string_view name) const {
  const std::optional<uint32_t> number = names_.find(name);
  if (!number || live_of_name_[*number] == kNone) return std::nullopt;
  return live_of_name_[*number];
}

std::vector<uint32_t> Metadata::find_datasets(std::span<const std::string> names) const {
  std::vector<uint32_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) {
    const auto number = find_dataset(name);
    if (!number) throw FieldError(cat("no dataset ", excerpt(name)));
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<uint32_t> Metadata::datasets() const {
  std::vector<uint32_t> numbers;
  for (uint32_t dataset = 0; dataset < n_numbers(); ++dataset) {
    if (exists(dataset)) numbers.push_back(dataset);
  }
  return numbers;
}

std::vector<uint32_t> Metadata::datasets_with(uint32_t variable) const {
  std::vector<uint32_t> numbers = datasets();
  std::erase_if(numbers, [&](uint32_t dataset) { return !schema_number(dataset, variable); });
  return numbers;
}

void Metadata::check_exists(uint32_t dataset) const {
  if (dataset < n_numbers() && exists(dataset)) return;
  throw std::out_of_range(cat("dataset ", dataset, " is out of range for a store of ", n_numbers()));
}

std::vector<bool> Metadata::used_variables() const {
  std::vector<bool> is_used(n_variables(), false);
  for (const uint32_t dataset : datasets()) {
    for (const Entry& entry : arrays(dataset)) is_used[entry.variable] = true;
  }
  return is_used;
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

uint32_t Metadata::add_dataset(std::string_view name) { return *add_new_dataset(name); }

std::optional<uint32_t> Metadata::add_new_dataset(std::string_view name) {
  const uint32_t dataset = n_numbers();
  const uint32_t name_number = names_.add(name);
  if (name_number == live_of_name_.size()) live_of_name_.push_back(kNone);
  if (live_of_name_[name_number] != kNone) return std::nullopt;
  live_of_name_[name_number] = dataset;
  name_of_.push_back(name_number);
  arrays_.add_list();
  attributes_.add_list();
  return dataset;
}

void Metadata::add_dataset(std::string_view name, uint64_t dataset_schema) {
  if (dataset_schema >= dataset_schemas_.size()) {
    throw_corrupt("schema of dataset ", excerpt(name), ": expected a number below ", dataset_schemas_.size(), ", got ",
                  dataset_schema);
  }
  if (!add_new_dataset(name)) throw_corrupt("datasets: duplicate name ", excerpt(name));
  schema_of_.push_back(static_cast<uint32_t>(dataset_schema));
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

void Metadata::copy_arrays(uint32_t from, uint32_t dataset) {
  for (size_t i = 0; i < arrays_[from].size(); ++i) add_array(dataset, Entry(arrays_[from][i]));
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
