// Comment line of a frame as keys and strings; FORMAT.md#comment-line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atompack::extxyz {

struct Entry {
  std::string key;
  std::string text;        // without quotes, outer brackets and escapes; "T" for a key without value
  size_t offset = 0;       // in the line
  bool bracketed = false;  // the value was in brackets, which are removed
};

// Offsets of errors count from the start of the line. A line without any `key=` is a remark: no entries.
std::vector<Entry> parse_comment_line(std::string_view line);

// Appends `text` such that a comment line reads it back as one string, quoted if needed. No line breaks.
void append_quoted(std::string_view text, std::string& line);

}  // namespace atompack::extxyz
