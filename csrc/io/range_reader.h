// Reading of parts of a file by pread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/file.h"

namespace atompack::io {

// Cache of the bytes read last; one per thread and purpose.
class RangeBuffer {
 private:
  friend class RangeReader;
  uint64_t reader_ = 0;  // serial number of the reader the bytes came from
  uint64_t begin_ = 0;
  std::vector<std::byte> bytes_;
};

// For reading files that others may truncate meanwhile: this throws where a mapping would end the process by SIGBUS.
// Const methods are thread-safe.
class RangeReader {
 public:
  // For the first `length` bytes of the file, which must exist.
  RangeReader(UniqueFd fd, uint64_t length, std::string path);

  uint64_t length() const { return length_; }
  const std::string& path() const { return path_; }

  // Returns bytes within length() as a view of `buffer`, valid until the buffer is used again. Up to `ahead` bytes are
  // read at once, for small pieces that follow each other. Throws CorruptFileError if the file was truncated.
  Bytes read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead = 0) const;
  // Reads into the caller's memory.
  void read(uint64_t offset, std::span<std::byte> into) const;

  // Throws CorruptFileError if the file was truncated.
  void check_not_shrunk() const;

 private:
  [[noreturn]] void fail_cut(uint64_t expected, uint64_t got) const;

  UniqueFd fd_;
  std::string path_;
  uint64_t length_;
  uint64_t serial_;
};

}  // namespace atompack::io
