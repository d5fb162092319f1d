// Writer of JSON in the layout of atlas-python: indented by two spaces, one list item per line, no final newline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atompack::serial {

// Lists and maps take their sizes in advance, which other formats need. Strings are UTF-8.
class JsonWriter {
 public:
  void map(size_t /*n_keys*/) { open('{'); }
  void key(std::string_view key);
  void end_map() { close('}'); }
  void list(size_t /*n_items*/) { open('['); }
  void item() { next_line(); }
  void end_list() { close(']'); }

  void text(std::string_view text);
  // Writes the string with an escape, so that it is not read back as a timestamp.
  void string_like_timestamp(std::string_view text);
  void natural(uint64_t value);
  void integer(int64_t value);
  // Throws FieldError for NaN and infinity.
  void real(double value);
  void boolean(bool value) { out_ += value ? "true" : "false"; }

  std::string take() { return std::move(out_); }

 private:
  void open(char bracket);
  void close(char bracket);
  void next_line();
  void write_escaped(std::string_view text);

  std::string out_;
  size_t depth_ = 0;
  bool first_ = true;  // of the innermost list or map
};

}  // namespace atompack::serial
