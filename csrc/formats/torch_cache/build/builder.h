// Resumable builder of cache files, entry by entry, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/torch_cache/build/encoder.h"
#include "formats/torch_cache/rows/tables.h"
#include "io/locked_file.h"

namespace atompack::torch_cache {

// Journal of a build, kept next to the file, that allows resuming it.

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

// Payloads are appended to a hidden file next to the path; finish() adds the rest with HDF5 and publishes the file. Not
// thread-safe. Must not be used in a forked child.
class Builder {
 public:
  // `fingerprint` identifies what is built from which data: entries of an earlier build with the same fingerprint are
  // kept. Throws LockedError if another build of this path is running, IoError (EEXIST) if the path exists. Appended
  // data is made durable whenever this many bytes of it are not.
  Builder(const std::string& path, CacheHeader header, const std::string& fingerprint,
          uint64_t checkpoint_bytes = uint64_t{256} << 20);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  // An unfinished build is kept for another Builder.
  ~Builder();

  // Includes entries of an earlier build.
  int64_t n_entries() const { return std::ssize(journal_.records()) + std::ssize(pending_); }

  void append(const EncodedEntries& entries);
  // Moves all entries of an unfinished build of another path into this one, except for the first ones, which are here
  // already.
  void absorb(const std::string& part_path, const std::string& fingerprint, size_t n_known = 0);
  // Makes appended data durable; a stopped build resumes from here.
  void checkpoint();
  // Publishes the file, durably. Throws IoError (EEXIST) if the path exists by now.
  void finish();
  // Deletes everything built so far.
  void discard();

 private:
  void check_written() const;

  CacheHeader header_;
  uint64_t checkpoint_bytes_;
  io::LockedFile file_;
  io::LockedFile journal_file_;
  Journal journal_;
  uint64_t end_ = 0;
  std::vector<EntryRecord> pending_;  // written, but not in the journal
  uint64_t pending_bytes_ = 0;
};

}  // namespace atompack::torch_cache
