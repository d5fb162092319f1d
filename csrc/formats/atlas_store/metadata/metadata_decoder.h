// Decoder of metadata from JSON or MessagePack: from any reader with the methods of serial/document.h.
#pragma once

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

// Bytes of a variable's last schema in the document, which most datasets repeat.
struct LastSchema {
  Bytes bytes;
  uint32_t number = 0;
};

template <typename In>
class MetadataDecoder {
 public:
  explicit MetadataDecoder(Bytes document) : in_(document) {}

  Metadata decode() {
    expect(in_, Token::map, "metadata");
    bool has_version = false, has_codec = false, has_datasets = false;
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      if (key == "version") {
        once(in_, has_version, "version");
        check_version(natural(in_, "version"));
      } else if (key == "codec") {
        once(in_, has_codec, "codec");
        metadata_.codec = decode_codec(in_);
      } else if (key == "datasets") {
        once(in_, has_datasets, "datasets");
        decode_datasets();
      } else {
        skip_value(in_);
      }
    }
    in_.finish();
    if (!has_version) throw CorruptFileError("metadata: expected a version, got none");
    if (!has_datasets) throw CorruptFileError("metadata: expected datasets, got none");
    return std::move(metadata_);
  }

 private:
  void check_version(uint64_t version) {
    if (version <= 1) return;
    if (version == 2) throw UnsupportedFormatError("version: expected 0 or 1, got 2, that of release 0.12");
    if (version == 3) throw UnsupportedFormatError("version: expected 0 or 1, got 3, that of releases 0.13 and 0.14");
    throw UnsupportedFormatError(cat("version: expected 0 or 1, got ", version));
  }

  void decode_datasets() {
    expect(in_, Token::map, "datasets");
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      if (metadata_.find_dataset(name)) fail(cat("datasets: duplicate name ", excerpt(name)));
      const uint32_t dataset = metadata_.add_dataset(name);
      try {
        decode_dataset(dataset);
      } catch (DataError& error) {
        error.at_field(std::string(metadata_.dataset_name(dataset)));
        throw;
      }
    }
  }

  void decode_dataset(uint32_t dataset) {
    expect(in_, Token::map, "dataset");
    bool has_arrays = false, has_attributes = false;
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      if (key == "arrays") {
        once(in_, has_arrays, "arrays");
        decode_arrays(dataset);
      } else if (key == "attributes") {
        once(in_, has_attributes, "attributes");
        decode_attributes(dataset);
      } else {
        skip_value(in_);
      }
    }
  }

  void decode_arrays(uint32_t dataset) {
    expect(in_, Token::map, "arrays");
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      const uint32_t variable = metadata_.add_variable(name);
      if (!variables_.first(variable, dataset)) fail(cat("arrays: duplicate name ", excerpt(name)));
      try {
        metadata_.add_array(dataset, {variable, decode_schema(variable)});
      } catch (DataError& error) {
        error.at_field(cat(metadata_.dataset_name(dataset), '/', metadata_.variable_name(variable)));
        throw;
      }
    }
  }

  uint32_t decode_schema(uint32_t variable) {
    if (variable >= last_.size()) last_.resize(variable + 1);
    LastSchema& last = last_[variable];
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
  std::vector<LastSchema> last_;
};

}  // namespace atompack::atlas_store
