// Files that are open for writing, each by one writer only: an advisory lock (flock) sees to that.
#pragma once

#include <string>
#include <vector>

#include "io/unique_fd.h"
#include "io/writable_file.h"

namespace atompack::io {

// The lock goes with the descriptor, so it ends with the process, however that ends. Not thread-safe but for what
// WritableFile promises.
class LockedFile final : public WritableFile {
 public:
  // Opens what is there. Throws LockedError if a writer has it open, IoError (ENOENT) if nothing is there.
  static LockedFile open(const std::string& path);

  // An empty file beside `path` that publish() gives this name; until then nobody sees it there. What a writer that
  // died left of such a file is used again. Throws LockedError if another writer is making one for this path.
  static LockedFile create_unpublished(const std::string& path);

  // The same with what was left in it, for long work that goes on where it was stopped; nothing in it: it is new.
  static LockedFile resume_unpublished(const std::string& path);

  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) = delete;
  // What was never published goes away, unless leave() was called; not in a forked child, whose parent still has it.
  ~LockedFile() override;

  uint64_t size() const override;
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override;
  void write_at(uint64_t offset, Bytes bytes) override;
  void truncate(uint64_t size) override;
  void sync_data() override;
  void sync() override;
  // A hint: what lies there is on its way to the disk, so that sync_data() finds less to wait for.
  void start_writing_back(uint64_t offset, uint64_t length);

  // Gives the file its name; `durable`: also after a loss of power. `replace`: also if something stands there, which
  // readers of the old file do not notice; else that is an IoError (EEXIST).
  void publish(bool replace, bool durable = true);
  bool is_published() const { return published_ && name_is_durable_; }

  // Where the file can be opened now, and the name it is meant for.
  const std::string& present_path() const { return present_path_; }
  const std::string& path() const override { return path_; }

  // Removes the file, if it still is the one at the path; readers that have it open keep it.
  void remove();

  // It stays behind, for resume_unpublished().
  void leave(bool stays = true) { stays_ = stays; }

  // Ends the lock at once, though a forked child may still hold the descriptor.
  void unlock();

 private:
  LockedFile(UniqueFd fd, std::string path, std::string present_path, bool published);

  UniqueFd fd_;
  std::string path_, present_path_;
  bool published_;
  bool name_is_durable_;
  bool stays_ = false;
  int64_t owner_;  // the process that opened it
};

// The names that unpublished files in this folder are meant for, also those that nobody works on any more.
std::vector<std::string> unpublished_in(const std::string& folder);

}  // namespace atompack::io
