#include "io/naming.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "io/unique_fd.h"

namespace atompack::io {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string unpublished_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return cat(path.substr(0, name), ".", path.substr(name), ".new");
}

bool rename_unless_taken(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) throw IoError(errno, std::strerror(errno), to);
  return false;
}

void sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw IoError(errno, cat("open: ", std::strerror(errno)), folder);
  // Some file systems know no fsync of a folder; there is nothing more that can be done then.
  if (::fsync(fd.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return;
  throw IoError(errno, cat("fsync: ", std::strerror(errno)), folder);
}

}  // namespace atompack::io
