// The journal of a build, beside the file that it makes: lets a stopped build go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/torch_cache/build/entry_record.h"
#include "io/locked_file.h"

namespace atompack::torch_cache {

// A list of entries, each step of it behind a checksum: what a crash cut off in the middle is not there.
class Journal {
 public:
  // Reads what stands in the file; of another build (`fingerprint`: what is built, from what) it is emptied.
  Journal(io::WritableFile& file, const std::string& fingerprint);

  // Of all entries so far, in order.
  const std::vector<EntryRecord>& records() const { return records_; }

  // Adds entries, durably. They must be durable themselves by then. Of entries that could not be added nothing counts.
  void append(const std::vector<EntryRecord>& records);

  // Forgets all entries.
  void start(const std::string& fingerprint);

 private:
  bool read(const std::string& fingerprint);

  io::WritableFile& file_;
  uint64_t end_ = 0;
  std::vector<EntryRecord> records_;
};

}  // namespace atompack::torch_cache
