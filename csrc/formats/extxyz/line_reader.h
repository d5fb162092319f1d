// The lines of a file, one after the other, through a buffer: memory does not grow with the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace atompack::extxyz {

// Reads as much of the file as there was when it was opened. Not thread-safe.
class LineReader {
 public:
  explicit LineReader(std::string path);

  // Without its end (\n or \r\n); nothing after the last one. Valid until the next call.
  std::optional<std::string_view> next();

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Of the line that was read last, and of what comes after it.
  uint64_t line_offset() const { return line_offset_; }
  uint64_t next_offset() const { return read_offset_ - (end_ - begin_); }
  // Whether the last line of all had no end: a cut in its last word would go unnoticed.
  bool ends_open() const { return ends_open_; }

 private:
  bool refill();

  std::string path_;
  io::UniqueFd fd_;
  uint64_t file_bytes_ = 0;
  uint64_t read_offset_ = 0;  // of the first byte that is not in the buffer yet
  uint64_t line_offset_ = 0;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what of the buffer is still to be read
  bool ends_open_ = false;
};

}  // namespace atompack::extxyz
