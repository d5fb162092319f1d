#include "io/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "io/folder.h"
#include "threads/process.h"

namespace atompack::io {

SharedLock::SharedLock(const std::string& path, const FileIdentity& identity) : fd_(open_for_reading(path)) {
  if (!identify(fd_.get(), path).same_file(identity)) {
    throw IoError(ESTALE, "the file was replaced while it was being opened", path);
  }
  if (::flock(fd_.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw IoError(EAGAIN, "another program has the file open for writing", path);
  }
}

// Immediately, even if a forked child holds the descriptor.
SharedLock::~SharedLock() { ::flock(fd_.get(), LOCK_UN); }

namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  const int code = errno;
  throw IoError(code, cat(doing, ": ", std::strerror(code)), path);
}

// Opens and locks the file at `at` for a writer of `path`.
UniqueFd open_and_lock(const std::string& at, int flags, const std::string& path) {
  constexpr int kMode = 0666;  // before the umask
  for (;;) {
    if ((flags & O_CREAT) == 0) check_regular_file(at);
    UniqueFd fd(::open(at.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, kMode));
    if (!fd) throw IoError(errno, std::strerror(errno), path);
    identify(fd.get(), path);  // throws unless it is a regular file
    if (::fcntl(fd.get(), F_SETFL, 0) != 0) fail(path, "fcntl");
    lock_for_writing(fd.get(), path, "has this file open");
    if (is_still_at(fd.get(), at)) return fd;
  }
}

// Fallback for file systems without an exclusive rename: a hard link is as exclusive.
void link_exclusively(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) != 0) throw IoError(errno, std::strerror(errno), to);
  ::unlink(from.c_str());
}

// True for a file that was published by a link and whose writer died before it removed the hidden name.
bool has_another_name(int fd, const std::string& path) {
  struct stat now{};
  if (::fstat(fd, &now) != 0) fail(path, "fstat");
  return now.st_nlink > 1;
}

}  // namespace

LockedFile::LockedFile(UniqueFd fd, std::string path, std::string present_path, bool published)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      present_path_(std::move(present_path)),
      published_(published),
      name_is_durable_(published),
      owner_(threads::process_id()) {}

LockedFile::LockedFile(LockedFile&& other) noexcept = default;

LockedFile LockedFile::open(const std::string& path) { return {open_and_lock(path, 0, path), path, path, true}; }

LockedFile LockedFile::create_unpublished(const std::string& path) {
  LockedFile file = resume_unpublished(path);
  file.truncate(0);
  return file;
}

LockedFile LockedFile::resume_unpublished(const std::string& path) {
  const std::string present = unpublished_path(path);
  for (;;) {
    UniqueFd fd = open_and_lock(present, O_CREAT | O_NOFOLLOW, path);
    if (has_another_name(fd.get(), path)) {
      ::unlink(present.c_str());
      continue;
    }
    return {std::move(fd), path, present, false};
  }
}

LockedFile::~LockedFile() {
  if (!fd_ || owner_ != threads::process_id()) return;
  if (!published_ && !stays_) ::unlink(present_path_.c_str());
  unlock();
}

void LockedFile::unlock() {
  if (fd_) ::flock(fd_.get(), LOCK_UN);
}

uint64_t LockedFile::size() const { return identify(fd_.get(), path_).size; }

size_t LockedFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  return io::read_at(fd_.get(), offset, into, path_);
}

void LockedFile::write_at(uint64_t offset, Bytes bytes) { io::write_at(fd_.get(), offset, bytes, path_); }

void LockedFile::truncate(uint64_t size) {
  while (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) fail(path_, "truncate");
  }
}

void LockedFile::sync_data() {
  if (::fdatasync(fd_.get()) != 0) fail(path_, "fdatasync");
}

void LockedFile::start_writing_back(uint64_t offset, uint64_t length) {
  // Errors are reported by sync_data().
  static_cast<void>(
      ::sync_file_range(fd_.get(), static_cast<off64_t>(offset), static_cast<off64_t>(length), SYNC_FILE_RANGE_WRITE));
}

void LockedFile::sync() {
  if (::fsync(fd_.get()) != 0) fail(path_, "fsync");
}

void LockedFile::publish(bool replace, bool durable) {
  if (!published_ && replace) {
    if (::rename(present_path_.c_str(), path_.c_str()) != 0) throw IoError(errno, std::strerror(errno), path_);
  } else if (!published_) {
    if (!rename_exclusively(present_path_, path_)) link_exclusively(present_path_, path_);
  }
  published_ = true;
  present_path_ = path_;
  if (!name_is_durable_ && durable) sync_folder_of(path_);
  name_is_durable_ = true;
}

void LockedFile::remove() {
  if (!is_still_at(fd_.get(), present_path_)) return;
  if (::unlink(present_path_.c_str()) != 0) throw IoError(errno, std::strerror(errno), path_);
}

std::vector<std::string> unpublished_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : names_in(folder)) {
    if (name.size() > 1 + kStagingSuffix.size() && name.starts_with('.') && name.ends_with(kStagingSuffix)) {
      names.push_back(name.substr(1, name.size() - 1 - kStagingSuffix.size()));
    }
  }
  return names;
}

}  // namespace atompack::io
