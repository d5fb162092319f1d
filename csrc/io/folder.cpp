#include "io/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/file.h"
#include "threads/process.h"

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

namespace fs = std::filesystem;

void make_folder_at(const std::string& path) {
  constexpr mode_t kMode = 0777;  // before the umask
  if (::mkdir(path.c_str(), kMode) != 0) throw_errno(path);
}

void remove_contents(const std::string& path) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (!error) fs::remove_all(entry.path(), error);
  }
  if (error) throw IoError(error.value(), error.message(), path);
}

UniqueFd make_and_lock(const std::string& at, const std::string& path) {
  for (;;) {
    if (!exists(at)) make_folder_at(at);
    UniqueFd fd(::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd && errno == ENOENT) continue;
    if (!fd) throw_errno(at);
    lock_for_writing(fd.get(), path, "is making this folder");
    if (is_still_at(fd.get(), at)) return fd;  // otherwise it was removed in the meantime
  }
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

void lock_for_writing(int fd, const std::string& path, std::string_view problem) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw LockedError(cat(path, ": another writer ", problem));
    if (errno != EINTR) throw IoError(errno, cat("flock: ", std::strerror(errno)), path);
  }
}

bool is_still_at(int fd, const std::string& path) {
  struct stat locked{}, now{};
  if (::fstat(fd, &locked) != 0) throw_errno(path);
  return ::stat(path.c_str(), &now) == 0 && locked.st_dev == now.st_dev && locked.st_ino == now.st_ino;
}

LockedFolder::LockedFolder(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), owner_(threads::process_id()) {
  if (!fd_) throw_errno(path);
  lock_for_writing(fd_.get(), path, "has this folder open");
}

LockedFolder::~LockedFolder() {
  if (owner_ == threads::process_id()) ::flock(fd_.get(), LOCK_UN);
}

UnpublishedFolder::UnpublishedFolder(std::string path, Existing existing)
    : path_(std::move(path)), present_path_(unpublished_path(path_)), owner_(threads::process_id()) {
  const bool is_there = exists(path_);
  if (is_there && existing == Existing::refuse) throw IoError(EEXIST, std::strerror(EEXIST), path_);
  fd_ = make_and_lock(present_path_, path_);
  remove_contents(present_path_);
  if (is_there) replaced_.emplace(path_);
}

UnpublishedFolder::~UnpublishedFolder() {
  if (is_published_ || owner_ != threads::process_id()) return;
  // What cannot be removed stays under the hidden name, where the next writer of this path tries again.
  std::error_code ignored;
  fs::remove_all(present_path_, ignored);
}

void UnpublishedFolder::make_folder(const std::string& name) { make_folder_at(inside(name)); }

void UnpublishedFolder::rename(const std::string& from, const std::string& to) {
  if (::rename(inside(from).c_str(), inside(to).c_str()) != 0) throw_errno(inside(to));
}

void UnpublishedFolder::link_replaced_files() {
  using Options = fs::copy_options;
  constexpr Options kLinks = Options::recursive | Options::create_hard_links | Options::copy_symlinks;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    if (exists(inside(name))) continue;
    fs::copy(entry.path(), inside(name), kLinks, error);
    if (error) throw IoError(error.value(), error.message(), entry.path().string());
  }
  if (error) throw IoError(error.value(), error.message(), path_);
}

void UnpublishedFolder::exchange() {
  struct stat old{};
  if (::stat(path_.c_str(), &old) != 0 || ::chmod(present_path_.c_str(), old.st_mode & 07777) != 0) throw_errno(path_);
  exchange_names(present_path_, path_);
  is_published_ = true;
  ::flock(fd_.get(), LOCK_UN);  // immediately, even if a forked child still holds the descriptor
  sync_folder_of(path_);
  // What cannot be removed stays under the hidden name, where the next writer of this path tries again.
  std::error_code ignored;
  fs::remove_all(present_path_, ignored);
}

void UnpublishedFolder::publish() {
  for (const std::string& name : folders_in(present_path_)) sync_folder(inside(name));
  sync_folder(present_path_);
  if (replaces()) return exchange();
  if (!rename_exclusively(present_path_, path_)) {
    // Such a file system replaces at most an empty folder, and only one created after this check.
    if (exists(path_)) throw IoError(EEXIST, std::strerror(EEXIST), path_);
    if (::rename(present_path_.c_str(), path_.c_str()) != 0) throw_errno(path_);
  }
  is_published_ = true;
  sync_folder_of(path_);
}

}  // namespace atompack::io
