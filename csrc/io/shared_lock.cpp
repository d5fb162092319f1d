#include "io/shared_lock.h"

#include <sys/file.h>

#include <cerrno>

#include "base/error.h"

namespace atompack::io {

SharedLock::SharedLock(const std::string& path, const FileIdentity& identity) : fd_(open_for_reading(path)) {
  if (!identify(fd_.get(), path).same_file(identity)) {
    throw IoError(ESTALE, "the file was replaced while it was being opened", path);
  }
  if (::flock(fd_.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw IoError(EAGAIN, "another program has the file open for writing", path);
  }
}

// At once, even if a forked child holds the descriptor.
SharedLock::~SharedLock() { ::flock(fd_.get(), LOCK_UN); }

}  // namespace atompack::io
