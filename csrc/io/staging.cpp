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

void exchange_names(const std::string& one, const std::string& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return;
  const bool is_unknown = errno == EINVAL || errno == ENOSYS;
  throw IoError(errno, is_unknown ? "this file system cannot exchange two folders" : std::strerror(errno), other);
}

}  // namespace atompack::io
