// Index of the rows of an ASE database in LMDB, in the order of their ids.
#pragma once

#include "formats/lmdb/row_list.h"
#include "formats/parsed/index.h"

namespace atompack::lmdb {

// Reads every row once. Not thread-safe.
class RowScanner {
 public:
  // Finds all rows; they are parsed on up to `n_threads` threads. Throws CorruptFileError.
  RowScanner(const std::string& path, unsigned n_threads);

  // Parses a few thousand rows; false after the last one. Throws CorruptFileError with the number of the row.
  bool advance();
  // Bytes of the rows.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t file_bytes() const { return total_bytes_; }
  // Returns what was found, once. Like that of other scanners, although all damage is an error of advance().
  parsed::Index finish(const std::string&, bool) { return std::move(index_); }

 private:
  struct ParsedRows {
    std::vector<parsed::IndexEntry> entries;
    parsed::Survey survey;
  };
  void parse_rows(int64_t first, int64_t last, ParsedRows& out) const;

  RowList rows_;
  unsigned n_threads_;
  parsed::Index index_;
  uint64_t bytes_read_ = 0, total_bytes_ = 0;
};

}  // namespace atompack::lmdb
