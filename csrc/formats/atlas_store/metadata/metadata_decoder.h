// Decoder of metadata from JSON or MessagePack: from any reader with the methods of serial/document.h.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/atlas_store/metadata/document.h"
#include "formats/atlas_store/metadata/timestamp.h"

namespace atompack::atlas_store {

// Set of the numbers used by the current dataset.
class UsedNumbers {
 public:
  // False if the dataset has used the number before.
  bool first(uint32_t number, uint32_t dataset) {
    if (number >= last_.size()) last_.resize(number + 1, 0);
    if (last_[number] == dataset + 1) return false;
    last_[number] = dataset + 1;
    return true;
  }

 private:
  std::vector<uint32_t> last_;  // per number: the last dataset that used it, plus one
};

// Bytes of a map in the document, which the next dataset is likely to repeat, and the number of what they mean.
struct LastMap {
  Bytes bytes;
  uint32_t number = 0;
};

template <typename In>
class MetadataDecoder {
 public:
  explicit MetadataDecoder(Bytes document) : in_(document) {}

  Metadata decode() {
    const auto [has_version, has_datasets, has_schemas, has_codec, has_deleted] =
        decode_map(in_, "metadata", MapField{"version", "version", [&] { decode_version(); }},
                   MapField{"datasets", "datasets", [&] { decode_datasets(); }},
                   MapField{"schemas", "schemas", [&] { decode_dataset_schemas(); }},
                   MapField{"codec", "codec", [&] { metadata_.codec = decode_codec(in_); }},
                   MapField{"deleted", "deleted", [&] { deleted_ = decode_sizes(in_, "deleted"); }});
    in_.finish();
    if (!has_version) throw CorruptFileError("metadata: expected a version, got none");
    if (!has_datasets) throw CorruptFileError("metadata: expected datasets, got none");
    if (metadata_.version >= kFirstWithSchemas) {
      if (!has_schemas) throw CorruptFileError("metadata: expected schemas, got none");
      add_numbered_datasets();
    } else if (!numbered_.empty()) {
      throw_corrupt("datasets: expected maps in version ", metadata_.version, ", got numbers");
    }
    return std::move(metadata_);
  }

 private:
  static constexpr uint64_t kFirstWithSchemas = 2, kNewest = 3;

  void decode_version() {
    metadata_.version = natural(in_, "version");
    if (metadata_.version <= kNewest) return;
    throw UnsupportedFormatError(cat("version: expected at most ", kNewest, ", got ", metadata_.version));
  }

  // A deleted dataset of version 3 keeps its place among the others.
  void add_numbered_datasets() {
    if (metadata_.n_numbers() > 0)
      throw_corrupt("datasets: expected numbers in version ", metadata_.version, ", got maps");
    std::vector<bool> is_deleted(numbered_.size());
    for (const uint64_t position : deleted_) {
      if (position >= numbered_.size()) {
        throw_corrupt("deleted: expected numbers below ", numbered_.size(), ", got ", position);
      }
      is_deleted[position] = true;
    }
    for (size_t i = 0; i < numbered_.size(); ++i) {
      if (!is_deleted[i]) metadata_.add_dataset(numbered_[i].first, numbered_[i].second);
    }
    if (has_attributes_) metadata_.attribute_variable = metadata_.add_variable(kStoreAttributes);
  }

  void decode_dataset_schemas() {
    expect(in_, Token::list, "schemas");
    for (auto scope = in_.enter_list(); in_.next_item(scope);) metadata_.add_dataset_schema(decode_dataset_schema());
  }

  DatasetSchema decode_dataset_schema() {
    DatasetSchema schema;
    std::vector<std::pair<std::string, std::vector<DeclaredAttribute>>> of_arrays;
    const auto decode_of_arrays = [&] {
      expect(in_, Token::map, "array_attrs");
      std::string_view key;
      for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
        std::string array(key);
        of_arrays.emplace_back(std::move(array), decode_declared());
      }
    };
    decode_map(in_, "schema", MapField{"arrays", "arrays", [&] { schema.arrays = decode_entries(); }},
               MapField{"global_attrs", "global_attrs", [&] { schema.attributes = decode_declared(); }},
               MapField{"array_attrs", "array_attrs", decode_of_arrays});
    has_attributes_ = has_attributes_ || !schema.attributes.empty();
    for (auto& [array, attributes] : of_arrays) {
      schema.array_attributes.emplace_back(metadata_.add_variable(array), std::move(attributes));
    }
    return schema;
  }

  std::vector<Entry> decode_entries() {
    expect(in_, Token::map, "arrays");
    std::vector<Entry> entries;
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      const uint32_t variable = metadata_.add_variable(name);
      if (std::ranges::find(entries, variable, &Entry::variable) != entries.end()) {
        fail(cat("arrays: duplicate name ", excerpt(name)));
      }
      entries.push_back({variable, decode_schema(variable)});
    }
    return entries;
  }

  std::vector<DeclaredAttribute> decode_declared() {
    expect(in_, Token::map, "attributes");
    std::vector<DeclaredAttribute> declared;
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      std::string name(key);
      declared.push_back({std::move(name), DataTypeDecoder<In>(in_).decode()});
    }
    return declared;
  }

  void decode_datasets() {
    expect(in_, Token::map, "datasets");
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      if (in_.peek() == Token::number) {
        std::string numbered(name);
        numbered_.emplace_back(std::move(numbered), natural(in_, "schema of a dataset"));
        continue;
      }
      const std::optional<uint32_t> dataset = metadata_.add_new_dataset(name);
      if (!dataset) fail(cat("datasets: duplicate name ", excerpt(name)));
      with_context([&](DataError& error) { error.at_field(metadata_.dataset_name(*dataset)); },
                   [&] { decode_dataset(*dataset); });
    }
  }

  void decode_dataset(uint32_t dataset) {
    decode_map(in_, "dataset", MapField{"arrays", "arrays", [&] { decode_arrays(dataset); }},
               MapField{"attributes", "attributes", [&] { decode_attributes(dataset); }});
  }

  void decode_arrays(uint32_t dataset) {
    expect(in_, Token::map, "arrays");
    if (!last_arrays_.bytes.empty() && in_.skip_same(last_arrays_.bytes)) {
      return metadata_.copy_arrays(last_arrays_.number, dataset);
    }
    const uint64_t begin = in_.position();
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      const uint32_t variable = metadata_.add_variable(name);
      if (!variables_.first(variable, dataset)) fail(cat("arrays: duplicate name ", excerpt(name)));
      const auto add_name = [&](DataError& error) {
        error.at_field(cat(metadata_.dataset_name(dataset), '/', metadata_.variable_name(variable)));
      };
      with_context(add_name, [&] { metadata_.add_array(dataset, {variable, decode_schema(variable)}); });
    }
    last_arrays_ = {in_.since(begin), dataset};
  }

  uint32_t decode_schema(uint32_t variable) {
    if (variable >= last_schemas_.size()) last_schemas_.resize(variable + 1);
    LastMap& last = last_schemas_[variable];
    if (!last.bytes.empty() && in_.skip_same(last.bytes)) return last.number;
    const uint64_t begin = in_.position();
    last.number = metadata_.add_schema(atlas_store::decode_schema(in_));
    last.bytes = in_.since(begin);
    return last.number;
  }

  void decode_attributes(uint32_t dataset) {
    expect(in_, Token::map, "attributes");
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      const uint32_t number = metadata_.add_key(key);
      if (!keys_.first(number, dataset)) fail(cat("attributes: duplicate key ", excerpt(key)));
      metadata_.add_attribute(dataset, number, decode_attribute(key));
    }
  }

  AttributeValue decode_attribute(std::string_view key) {
    switch (const Token token = in_.peek()) {
      case Token::boolean:
        return in_.boolean();
      case Token::number:
        return number_attribute(in_.number());
      case Token::text:
        return text_attribute(in_.text());
      default:
        fail(cat("attribute ", excerpt(key), ": expected a plain value, got ", name_of(token)));
    }
  }

  AttributeValue number_attribute(const Number& number) {
    if (const auto* const natural = std::get_if<uint64_t>(&number)) {
      if (*natural <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(*natural);
      return static_cast<double>(*natural);
    }
    if (const auto* const negative = std::get_if<int64_t>(&number)) return *negative;
    return std::get<double>(number);
  }

  // atlas-python does not read a string with escapes as a timestamp.
  AttributeValue text_attribute(std::string_view text) {
    const std::optional<Timestamp> moment = in_.text_was_escaped() ? std::nullopt : parse_timestamp(text);
    if (!moment) return text;
    return TimestampValue{*moment, format_timestamp(*moment) == text ? "" : text};
  }

  [[noreturn]] void fail(const std::string& what) { throw CorruptFileError(what, in_.position()); }

  In in_;
  Metadata metadata_;
  UsedNumbers variables_, keys_;
  std::vector<std::pair<std::string, uint64_t>> numbered_;  // datasets of versions 2 and 3, with their schema
  std::vector<uint64_t> deleted_;
  bool has_attributes_ = false;        // of datasets, in versions 2 and 3
  LastMap last_arrays_;                // of a dataset
  std::vector<LastMap> last_schemas_;  // by variable
};

}  // namespace atompack::atlas_store
