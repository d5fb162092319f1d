// Reader of lines, buffered or of bytes in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "io/file.h"

namespace atompack::extxyz {

// Not thread-safe.
class LineReader {
 public:
  // Reads as many bytes as the file has now, in memory that does not grow with it.
  explicit LineReader(std::string path);
  // Lines of bytes that begin at this offset of their file. Keeps a view.
  LineReader(Bytes text, uint64_t offset);

  // Returns a line without its line feed and a carriage return before it; nullopt after the last one. Valid until the
  // next call.
  std::optional<std::string_view> next();

  // End of the bytes in memory, of which the line read last is a part.
  const char* readable() const { return data_ + end_; }

  uint64_t file_bytes() const { return file_bytes_; }
  // Continues with the bytes at this offset of the file.
  void seek(uint64_t offset);
  // Skips lines without looking at them; false if the bytes end before.
  bool skip(int64_t n_lines);

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
  const char* data_ = nullptr;  // the buffer, or the bytes of the caller
  size_t begin_ = 0, end_ = 0;  // unread range of it
  bool ends_open_ = false;
};

}  // namespace atompack::extxyz
