#include "io/locked_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "threads/process.h"

namespace atompack::io {

LockedFolder::LockedFolder(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), owner_(process_id()) {
  if (!fd_) throw IoError(errno, std::strerror(errno), path);
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw LockedError(cat(path, ": another writer has this folder open"));
    if (errno != EINTR) throw IoError(errno, std::strerror(errno), path);
  }
}

LockedFolder::~LockedFolder() {
  if (owner_ == process_id()) ::flock(fd_.get(), LOCK_UN);
}

}  // namespace atompack::io
