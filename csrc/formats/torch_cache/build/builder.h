// Makes a cache file entry by entry, in bounded memory, and goes on where an earlier build was stopped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/torch_cache/build/encoder.h"
#include "formats/torch_cache/build/journal.h"
#include "formats/torch_cache/rows/tables.h"
#include "io/locked_file.h"

namespace atompack::torch_cache {

// Payloads are appended to a hidden file beside the path; at the end HDF5 adds the rest and the file takes its name.
// Not thread-safe. In a forked child it must not be used.
class Builder {
 public:
  // `fingerprint`: what is built, from what. Entries of an earlier build with the same one are kept. Throws
  // LockedError if another build of this path goes on, IoError (EEXIST) if something stands there. What is appended
  // becomes durable each time when so many bytes of it are not.
  Builder(const std::string& path, CacheHeader header, const std::string& fingerprint,
          uint64_t checkpoint_bytes = uint64_t{256} << 20);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  // What was not finished stays for another Builder.
  ~Builder();

  // Those of an earlier build included.
  int64_t n_entries() const { return std::ssize(journal_.records()) + std::ssize(pending_); }

  void append(EncodedEntries entries);
  // Takes over all entries of a build of another path, which was let go unfinished, and takes that away.
  void absorb(const std::string& part_path, const std::string& fingerprint);
  // Makes what was appended durable; a build that is stopped goes on from here.
  void checkpoint();
  // The file takes its name, durably. Throws IoError (EEXIST) if something stands there by now.
  void finish();
  // What was built so far goes away.
  void discard();

 private:
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
