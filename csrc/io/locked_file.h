// Files open for writing by one writer at a time, enforced by an advisory lock (flock).
#pragma once

#include <string>
#include <vector>

#include "io/file.h"
#include "io/file_system.h"
#include "io/unique_fd.h"

namespace atompack::io {

// Shared locks of files, which keep writers away that lock a file for themselves (flock).

// A file system without locks is no reason to refuse a file.
class SharedLock {
 public:
  // Throws IoError if the file at the path has a different identity or is locked by a writer.
  SharedLock(const std::string& path, const FileIdentity& identity);
  ~SharedLock();

 private:
  UniqueFd fd_;
};

// The lock belongs to the descriptor and ends with the process. Not thread-safe beyond the guarantees of WritableFile.
class LockedFile final : public WritableFile {
 public:
  // Opens an existing file. Throws LockedError if another writer has it open, IoError (ENOENT) if missing.
  static LockedFile open(const std::string& path);

  // Creates an empty file under a hidden name next to `path`; publish() renames it. A file left by a writer that died
  // is emptied and reused. Throws LockedError if another writer is creating a file for this path.
  static LockedFile create_unpublished(const std::string& path);

  // Like create_unpublished(), but keeps the content of a leftover file, to resume long work; a new file is empty.
  static LockedFile resume_unpublished(const std::string& path);

  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) = delete;
  // Removes an unpublished file, unless leave() was called or this is a forked child, whose parent still owns it.
  ~LockedFile() override;

  uint64_t size() const override;
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override;
  void write_at(uint64_t offset, Bytes bytes) override;
  void truncate(uint64_t size) override;
  void sync_data() override;
  void sync() override;
  // Hint: starts writing this range to the disk, so that sync_data() waits less.
  void start_writing_back(uint64_t offset, uint64_t length);

  // Renames the file to its final path; `durable` makes the rename survive a power failure. `replace` allows replacing
  // an existing file, whose readers are not affected; otherwise that is an IoError (EEXIST).
  void publish(bool replace, bool durable = true);
  bool is_published() const { return published_ && name_is_durable_; }

  // The current path of the file, and the path that it is published under.
  const std::string& present_path() const { return present_path_; }
  const std::string& path() const override { return path_; }

  // Removes the file if it still is the one at the path; readers that have it open are not affected.
  void remove();

  // Keeps the unpublished file on destruction, for resume_unpublished().
  void leave(bool stays = true) { stays_ = stays; }

  // Releases the lock immediately, even if a forked child still holds the descriptor.
  void unlock();

 private:
  LockedFile(UniqueFd fd, std::string path, std::string present_path, bool published);

  UniqueFd fd_;
  std::string path_, present_path_;
  bool published_;
  bool name_is_durable_;
  bool stays_ = false;
  int64_t owner_;  // process that opened the file
};

// Final names of the unpublished files in this folder, including those that no writer works on any more.
std::vector<std::string> unpublished_in(const std::string& folder);

}  // namespace atompack::io
