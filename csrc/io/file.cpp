#include "io/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace atompack::io {
namespace {

FileVersion version_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), status.st_ctim.tv_sec,
          status.st_ctim.tv_nsec};
}

std::string_view kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

void check_is_regular(const struct stat& status, const std::string& path) {
  if (S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) throw IoError(EISDIR, std::strerror(EISDIR), path);
  throw IoError(EINVAL, cat("expected a regular file, got ", kind_of(status.st_mode)), path);
}

bool is_made_up(const struct statfs& system) {
  return system.f_type == PROC_SUPER_MAGIC || system.f_type == TRACEFS_MAGIC || system.f_type == DEBUGFS_MAGIC ||
         system.f_type == SYSFS_MAGIC;
}

// Raises the soft limit of descriptors to the hard one when half of it is in use, so that everyone finds room.
void leave_room_for_more(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(fd) < limit.rlim_cur / 2) return;
  constexpr rlim_t kEnough = 1 << 20;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if that fails, opening reports it
}

}  // namespace

std::optional<FileVersion> version_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return version_of(status);
  if (errno != ENOENT) throw_errno(path);
  return std::nullopt;
}

FileVersion version_of(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_errno(path);
  return version_of(status);
}

bool exists(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0;
}

void check_regular_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw_errno(path);
  check_is_regular(status, path);
  struct statfs system{};
  // Files of virtual file systems report size 0.
  if (status.st_size == 0 && ::statfs(path.c_str(), &system) == 0 && is_made_up(system)) {
    throw IoError(EINVAL, "expected a regular file, got one of a virtual file system", path);
  }
}

UniqueFd open_for_reading(const std::string& path) {
  check_regular_file(path);  // opening a device can have side effects
  // O_NONBLOCK: the path may have become a pipe since the check.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd && errno == EMFILE) {
    throw IoError(EMFILE, "too many open files: raise the limit (`ulimit -n`), or join the files by `convert`", path);
  }
  if (!fd) throw_errno(path);
  leave_room_for_more(fd.get());
  identify(fd.get(), path);
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) throw_errno(path);
  return fd;
}

FileIdentity identify(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_errno(path);
  check_is_regular(status, path);
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size)};
}

size_t read_at(int fd, uint64_t offset, std::span<std::byte> into, const std::string& path) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void write_at(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw IoError(errno, cat("write: ", std::strerror(errno)), path);
    done += static_cast<size_t>(put);
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  constexpr int kMode = 0666;  // before the umask
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (!fd_) throw IoError(errno, std::strerror(errno), path_);
}

void OutputFile::append(Bytes bytes) {
  write_at(fd_.get(), size_, bytes, path_);
  size_ += bytes.size();
}

void OutputFile::sync() {
  if (::fsync(fd_.get()) != 0) throw IoError(errno, cat("fsync: ", std::strerror(errno)), path_);
}

void write_new(const std::string& path, Bytes bytes) {
  OutputFile file(path);
  file.append(bytes);
  file.sync();
}

}  // namespace atompack::io
