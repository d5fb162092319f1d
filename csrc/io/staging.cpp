#include "io/staging.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace atompack::io {

std::string unpublished_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return cat(path.substr(0, name), ".", path.substr(name), kStagingSuffix);
}

bool rename_exclusively(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) throw IoError(errno, std::strerror(errno), to);
  return false;
}

}  // namespace atompack::io
