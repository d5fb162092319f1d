// simdjson's On-Demand reader behind the methods of serial/document.h.
#pragma once

#include <simdjson.h>

#include <cmath>
#include <string>

#include "serial/document.h"

namespace atompack::benchmarks {

namespace ondemand = simdjson::ondemand;

// Copies the document, because simdjson reads up to 64 bytes past its end. Throws simdjson_error besides
// CorruptFileError. What it leaves open is in docs/decisions/json.md.
class SimdjsonReader {
 public:
  // Of a map or of a list.
  struct Scope {
    ondemand::object_iterator field, last_field;
    ondemand::array_iterator item, last_item;
    bool first = true;
  };

  explicit SimdjsonReader(Bytes text)
      : text_(as_text(text)), document_(parser_.iterate(text_)), current_(document_.get_value()) {}

  serial::Token peek() {
    using serial::Token;
    switch (current_.type()) {
      case ondemand::json_type::object:
        return Token::map;
      case ondemand::json_type::array:
        return Token::list;
      case ondemand::json_type::string:
        return Token::text;
      case ondemand::json_type::boolean:
        return Token::boolean;
      case ondemand::json_type::null:
        return Token::null;
      default:
        return Token::number;
    }
  }

  Scope enter_map() {
    ondemand::object map = current_.get_object();
    Scope scope;
    scope.field = map.begin();
    scope.last_field = map.end();
    return scope;
  }

  bool next_key(Scope& scope, std::string_view& key) {
    if (!scope.first) ++scope.field;
    scope.first = false;
    if (scope.field == scope.last_field) return false;
    ondemand::field field = *scope.field;
    key = field.unescaped_key();
    current_ = field.value();
    return true;
  }

  Scope enter_list() {
    ondemand::array list = current_.get_array();
    Scope scope;
    scope.item = list.begin();
    scope.last_item = list.end();
    return scope;
  }

  bool next_item(Scope& scope) {
    if (!scope.first) ++scope.item;
    scope.first = false;
    if (scope.item == scope.last_item) return false;
    current_ = (*scope.item).value();
    return true;
  }

  std::string_view text() {
    escaped_ = current_.raw_json_token().find('\\') != std::string_view::npos;
    return current_.get_string();
  }
  bool text_was_escaped() const { return escaped_; }

  serial::Number number() {
    const std::string_view token = current_.raw_json_token();
    const ondemand::number number = current_.get_number();
    switch (number.get_number_type()) {
      case ondemand::number_type::floating_point_number:
        return number.get_double();
      case ondemand::number_type::unsigned_integer:
        return number.get_uint64();
      default:
        break;
    }
    const int64_t integer = number.get_int64();
    if (integer < 0) return integer;
    return token[0] == '-' ? serial::Number(-0.0) : static_cast<uint64_t>(integer);
  }

  bool boolean() { return current_.get_bool(); }
  void null() { static_cast<void>(current_.is_null()); }

  uint64_t position() { return static_cast<uint64_t>(current_.raw_json_token().data() - text_.data()); }
  // With the white space behind the value.
  Bytes since(uint64_t position) {
    const char* const end = document_.current_location();
    return as_bytes(std::string_view(text_.data() + position, static_cast<size_t>(end - text_.data()) - position));
  }
  // simdjson itself passes over the value when the next one is asked for.
  bool skip_same(Bytes value) {
    const std::string_view rest = std::string_view(text_.data(), text_.size()).substr(position());
    return rest.starts_with(as_text(value));
  }
  void finish() {
    if (const char* at = nullptr; document_.current_location().get(at) == simdjson::SUCCESS)
      throw CorruptFileError("JSON: expected nothing more");
  }

 private:
  simdjson::padded_string text_;
  ondemand::parser parser_;
  ondemand::document document_;
  ondemand::value current_;
  bool escaped_ = false;
};

}  // namespace atompack::benchmarks
