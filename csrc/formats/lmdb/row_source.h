// Rows of an ASE database in LMDB: their index, in the order of their ids, and the rows as molecules.
#pragma once

#include <memory>

#include "formats/lmdb/page_file.h"
#include "formats/lmdb/row_list.h"
#include "formats/parsed/index.h"
#include "formats/parsed/source.h"

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

// Rows are decompressed and parsed when they are read.
class RowSource final : public parsed::IndexedSource {
 public:
  // Throws IoError (ESTALE) if the file has not the size and the time of `version`.
  RowSource(const io::Location& location, const io::FileVersion& version, std::shared_ptr<const parsed::Index> index,
            std::shared_ptr<const parsed::FieldMap> fields, io::Access access, bool populate);

  void prepare(std::span<const int64_t> indices) const override;
  void prefetch(int64_t index) const override { bytes().prefetch(entry(index).place, entry(index).bytes); }

 private:
  const io::ByteSource& bytes() const override { return pages_->bytes(); }
  Bytes parse(int64_t index, std::span<std::byte> scratch) const override;

  std::unique_ptr<const PageFile> pages_;
};

}  // namespace atompack::lmdb
