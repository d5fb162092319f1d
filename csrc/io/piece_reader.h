// Pieces of a file by pread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/file.h"

namespace atompack::io {

// The bytes of a file that were read last; one for each thread and purpose.
class PieceBuffer {
 private:
  friend class PieceReader;
  uint64_t reader_ = 0;  // its serial number
  uint64_t begin_ = 0;
  std::vector<std::byte> bytes_;
};

// For passes over files that others may cut meanwhile: where a mapping would end the process, this throws. Const
// methods are thread-safe.
class PieceReader {
 public:
  // Of the first `length` bytes, which the file has.
  PieceReader(UniqueFd fd, uint64_t length, std::string path);

  uint64_t length() const { return length_; }
  const std::string& path() const { return path_; }

  // Bytes inside of length(), a view of `buffer` that is valid until it is used again; up to `ahead` bytes are read at
  // once, for small pieces that follow each other. Throws CorruptFileError where the file was cut.
  Bytes read(uint64_t offset, uint64_t n, PieceBuffer& buffer, uint64_t ahead = 0) const;
  // The same into memory of the caller.
  void read(uint64_t offset, std::span<std::byte> into) const;

  // Throws CorruptFileError where the file was cut.
  void check_not_shrunk() const;

 private:
  [[noreturn]] void fail_cut(uint64_t expected, uint64_t got) const;

  UniqueFd fd_;
  std::string path_;
  uint64_t length_;
  uint64_t serial_;
};

}  // namespace atompack::io
