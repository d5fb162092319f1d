// Verification: reads everything of an array to find damage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/array_file/read/reader.h"

namespace atompack::array_file {

// Decodes and checks every chunk of an array, in memory that does not grow with the array. Throws FieldError if there
// is no such array, CorruptFileError and UnsupportedFormatError for errors that reading it would report.
void verify_array(const Reader& reader, std::string_view name, DecodedBlock& last);

// Reads the arrays of one file with pread: truncation in the meantime is an error, not a signal.
class Verification {
 public:
  Verification(const io::Location& base, uint64_t max_metadata_bytes)
      : reader_(base, max_metadata_bytes, Reading::by_pread) {}

  std::vector<std::string> names() const { return reader_.names(); }
  void check(std::string_view name) { verify_array(reader_, name, last_); }

 private:
  Reader reader_;
  DecodedBlock last_;
};

}  // namespace atompack::array_file
