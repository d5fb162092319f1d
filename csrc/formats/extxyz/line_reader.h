// Buffered reader of lines: memory does not grow with the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace atompack::extxyz {

// Reads as many bytes as the file had when it was opened. Not thread-safe.
class LineReader {
 public:
  explicit LineReader(std::string path);

  // Returns a line without its end (
  //  or \r
  // ); nullopt after the last one. Valid until the next call.
  std::optional<std::string_view> next();

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Offset of the line read last, and of the bytes after it.
  uint64_t line_offset() const { return line_offset_; }
  uint64_t next_offset() const { return read_offset_ - (end_ - begin_); }
  // True if the last line has no line end: if it was truncated in its last word, that goes unnoticed.
  bool ends_open() const { return ends_open_; }

 private:
  bool refill();

  std::string path_;
  io::UniqueFd fd_;
  uint64_t file_bytes_ = 0;
  uint64_t read_offset_ = 0;  // of the first byte that is not in the buffer yet
  uint64_t line_offset_ = 0;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // unread range of the buffer
  bool ends_open_ = false;
};

}  // namespace atompack::extxyz
