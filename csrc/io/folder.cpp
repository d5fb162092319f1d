#include "io/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "io/system_error.h"
#include "io/unique_fd.h"

namespace atompack::io {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

bool is_folder(int folder, const char* name) {
  struct stat status{};
  return ::fstatat(folder, name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

template <typename Choose>
std::vector<std::string> list(const std::string& path, const Choose& choose) {
  const auto fail = [&](int code) { throw IoError(code, std::strerror(code), path); };
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) fail(errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && choose(::dirfd(folder.get()), entry->d_name)) names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail(errno);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> names_in(const std::string& path) {
  return list(path, [](int, const char*) { return true; });
}

std::vector<std::string> folders_in(const std::string& path) { return list(path, is_folder); }

void remove_if_empty(const std::string& path) {
  if (::rmdir(path.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) throw_errno(path);
}

void sync_folder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw_errno(path);
  // Some file systems do not support fsync of a folder; nothing more can be done there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) throw_errno(path);
}

void sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return sync_folder(".");
  sync_folder(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace atompack::io
