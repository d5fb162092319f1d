// Index of the rows of an ASE database in LMDB, in the order of their ids.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "formats/parsed/index.h"

namespace atompack::lmdb {

// Returns the JSON of a stored value: a zlib stream, or plain. The memory is reused.
Bytes decode_value(Bytes stored, std::vector<std::byte>& memory);

// Reads every row once. Not thread-safe.
class RowScanner {
 public:
  // Finds all rows; they are parsed on up to `n_threads` threads. Throws CorruptFileError.
  RowScanner(const std::string& path, unsigned n_threads);
  ~RowScanner();

  // Parses some thousand rows; false after the last one. Throws CorruptFileError with the number of the row.
  bool advance();
  // Bytes of the rows.
  uint64_t bytes_read() const;
  uint64_t file_bytes() const;
  // Returns what was found, once.
  parsed::Index take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::lmdb
