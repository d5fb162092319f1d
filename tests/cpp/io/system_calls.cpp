#include "io/system_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstring>
#include <map>
#include <string>

namespace {

using atompack::test::Call;

thread_local const atompack::test::CallObserver* observer = nullptr;
thread_local std::map<DIR*, std::string> last_listed;

// Not while the observer itself runs.
void note(Call call) {
  const auto* const now = observer;
  if (now == nullptr) return;
  observer = nullptr;
  (*now)(call);
  observer = now;
}

}  // namespace

// NOLINTBEGIN: the linker chooses these names
extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_stat(const char* path, struct stat* status);
int __real_lstat(const char* path, struct stat* status);
int __real_fstatat(int folder, const char* path, struct stat* status, int flags);
DIR* __real_opendir(const char* path);
struct dirent* __real_readdir(DIR* folder);
int __real_closedir(DIR* folder);
int __real_rename(const char* from, const char* to);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
int __real_link(const char* from, const char* to);
int __real_unlink(const char* path);
int __real_mkdir(const char* path, mode_t mode);

int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  note(Call::reads);
  return __real_open(path, flags, mode);
}

int __wrap_stat(const char* path, struct stat* status) {
  note(Call::reads);
  return __real_stat(path, status);
}

int __wrap_lstat(const char* path, struct stat* status) {
  note(Call::reads);
  return __real_lstat(path, status);
}

int __wrap_fstatat(int folder, const char* path, struct stat* status, int flags) {
  note(Call::reads);
  return __real_fstatat(folder, path, status, flags);
}

DIR* __wrap_opendir(const char* path) {
  note(Call::reads);
  return __real_opendir(path);
}

// Names in descending order, each looked up again: of those that appear during a listing, lower ones are found and
// higher ones are not, and one that goes is missed if it was not returned yet. No system does worse.
struct dirent* __wrap_readdir(DIR* folder) {
  if (observer == nullptr) return __real_readdir(folder);
  note(Call::reads);
  const auto [last, is_first] = last_listed.try_emplace(folder);
  thread_local struct dirent found;
  bool any = false;
  rewinddir(folder);
  while (const struct dirent* const entry = __real_readdir(folder)) {
    const bool is_next = is_first || std::strcmp(entry->d_name, last->second.c_str()) < 0;
    if (!is_next || (any && std::strcmp(entry->d_name, found.d_name) <= 0)) continue;
    found = *entry;
    any = true;
  }
  if (!any) return nullptr;
  last->second = found.d_name;
  return &found;
}

int __wrap_closedir(DIR* folder) {
  last_listed.erase(folder);
  return __real_closedir(folder);
}

int __wrap_rename(const char* from, const char* to) {
  note(Call::changes);
  return __real_rename(from, to);
}

int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  note(Call::changes);
  return __real_renameat2(from_folder, from, to_folder, to, flags);
}

int __wrap_link(const char* from, const char* to) {
  note(Call::changes);
  return __real_link(from, to);
}

int __wrap_unlink(const char* path) {
  note(Call::changes);
  return __real_unlink(path);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  note(Call::changes);
  return __real_mkdir(path, mode);
}

}  // extern "C"
// NOLINTEND

namespace atompack::test {

ObservedCalls::ObservedCalls(CallObserver observer) : observer_(std::move(observer)) { ::observer = &observer_; }

ObservedCalls::~ObservedCalls() { ::observer = nullptr; }

}  // namespace atompack::test
