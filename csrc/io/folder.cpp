#include "io/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace atompack::io {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

bool is_folder(int folder, const char* name) {
  struct stat status{};
  return ::fstatat(folder, name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::vector<std::string> folders_in(const std::string& path) {
  const auto fail = [&](int code) { throw IoError(code, std::strerror(code), path); };
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) fail(errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && is_folder(::dirfd(folder.get()), entry->d_name)) names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail(errno);
  std::ranges::sort(names);
  return names;
}

}  // namespace atompack::io
