// Lock of a folder that one writer at a time may change.
#pragma once

#include <cstdint>
#include <string>

#include "io/unique_fd.h"

namespace atompack::io {

// Advisory lock (flock) on the folder itself, so that no lock file is left behind. It ends with the process.
class LockedFolder {
 public:
  // Throws LockedError if another writer holds the lock, IoError (ENOENT, ENOTDIR) if `path` is not a folder.
  explicit LockedFolder(const std::string& path);
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;
  // Releases the lock at once, even if a forked child still holds the descriptor; does nothing in that child.
  ~LockedFolder();

 private:
  UniqueFd fd_;
  int64_t owner_;  // process that locked the folder
};

}  // namespace atompack::io
