// The second line of a frame as keys and texts; FORMAT.md#comment-line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atompack::extxyz {

struct Entry {
  std::string key;
  std::string text;        // without quotes, outer brackets and escapes; "T" for a key that stands alone
  size_t offset = 0;       // in the line
  bool bracketed = false;  // the value stood in brackets, the outer pair is gone
};

// Thrown errors count offsets from the start of the line. A line without any `key=` is a remark in plain words: no
// entries.
std::vector<Entry> parse_comment_line(std::string_view line);

// `text` so that a comment line reads it as this one text, quoted where it must be. No line breaks.
void append_quoted(std::string_view text, std::string& line);

}  // namespace atompack::extxyz
