// Rows of an ASE database in LMDB: where they are, and how they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/lmdb/page_file.h"
#include "formats/lmdb/row_json.h"
#include "formats/parsed/survey.h"
#include "io/open_file.h"

namespace atompack::lmdb {

// Returns the JSON of a stored value: a zlib stream, or plain. The memory is reused.
Bytes decode_value(Bytes stored, std::vector<std::byte>& memory);

// Upper bound of the parsed record of a row.
uint64_t record_bytes_of(const Row& row);

// Adds the fields of a row to a survey.
void add_row(const Row& row, parsed::Survey& survey);

// Memory that a thread reuses from row to row.
struct RowMemory {
  io::RangeBuffer buffer;
  std::vector<std::byte> json;
};

// Rows in the order of their ids. Const methods are thread-safe.
class RowList {
 public:
  // Throws CorruptFileError.
  explicit RowList(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(ranges_.size()); }
  const ValueRange& range(int64_t row) const { return ranges_[static_cast<size_t>(row)]; }
  const std::string& path() const { return path_; }
  const io::FileVersion& version() const { return file_->version(); }
  // Throws CorruptFileError with the number of the row.
  void read(int64_t row, Row& into, RowMemory& memory) const;

 private:
  Bytes value(const ValueRange& range, RowMemory& memory) const;

  std::string path_;
  std::shared_ptr<const io::OpenFile> file_;
  PageFile pages_;
  std::vector<ValueRange> ranges_;
};

}  // namespace atompack::lmdb
