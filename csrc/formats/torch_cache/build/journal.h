// Journal of a build, kept beside the file, that allows resuming it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/torch_cache/build/entry_record.h"
#include "io/locked_file.h"

namespace atompack::torch_cache {

// A list of entries in steps, each protected by a checksum: a step truncated by a crash is ignored.
class Journal {
 public:
  // Reads the existing journal; one of another build (`fingerprint` identifies what is built from which data) is
  // emptied.
  Journal(io::WritableFile& file, const std::string& fingerprint);

  // All entries so far, in order.
  const std::vector<EntryRecord>& records() const { return records_; }

  // Adds entries durably; their data must be durable already. If it throws, none of these entries counts.
  void append(const std::vector<EntryRecord>& records);

  // Removes all entries.
  void start(const std::string& fingerprint);

 private:
  bool read(const std::string& fingerprint);

  io::WritableFile& file_;
  uint64_t end_ = 0;
  std::vector<EntryRecord> records_;
};

}  // namespace atompack::torch_cache
