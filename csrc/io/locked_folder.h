// The lock of a folder that one writer at a time may change.
#pragma once

#include <cstdint>
#include <string>

#include "io/unique_fd.h"

namespace atompack::io {

// An advisory lock (flock) of the folder itself: nothing is left behind in it. It ends with the process.
class LockedFolder {
 public:
  // Throws LockedError if a writer has it, IoError (ENOENT, ENOTDIR) if it is no folder.
  explicit LockedFolder(const std::string& path);
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;
  // Ends the lock at once, though a forked child may still hold the descriptor; not in that child.
  ~LockedFolder();

 private:
  UniqueFd fd_;
  int64_t owner_;  // the process that locked it
};

}  // namespace atompack::io
