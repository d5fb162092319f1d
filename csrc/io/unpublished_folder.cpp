#include "io/unpublished_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/staging.h"
#include "io/system_error.h"
#include "threads/process.h"

namespace atompack::io {
namespace {

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

// The lock belongs to the inode: if the folder was removed meanwhile, it must be created again.
bool is_folder_still_at(int fd, const std::string& path) {
  struct stat locked{}, now{};
  if (::fstat(fd, &locked) != 0) throw_errno(path);
  return ::stat(path.c_str(), &now) == 0 && locked.st_dev == now.st_dev && locked.st_ino == now.st_ino;
}

UniqueFd make_and_lock(const std::string& at, const std::string& path) {
  for (;;) {
    if (!exists(at)) make_folder_at(at);
    UniqueFd fd(::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd && errno == ENOENT) continue;
    if (!fd) throw_errno(at);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) throw LockedError(cat(path, ": another writer is making this folder"));
      if (errno != EINTR) throw_errno(at);
      continue;
    }
    if (is_folder_still_at(fd.get(), at)) return fd;
  }
}

}  // namespace

UnpublishedFolder::UnpublishedFolder(std::string path, Existing existing)
    : path_(std::move(path)), present_path_(unpublished_path(path_)), owner_(process_id()) {
  const bool is_there = exists(path_);
  if (is_there && existing == Existing::refuse) throw IoError(EEXIST, std::strerror(EEXIST), path_);
  fd_ = make_and_lock(present_path_, path_);
  remove_contents(present_path_);
  if (is_there) replaced_.emplace(path_);
}

UnpublishedFolder::~UnpublishedFolder() {
  if (is_published_ || owner_ != process_id()) return;
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
  ::flock(fd_.get(), LOCK_UN);  // at once, even if a forked child still holds the descriptor
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
