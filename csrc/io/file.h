// Opening, measuring and reading of regular files. Every failure is an IoError that names the path.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "io/unique_fd.h"

namespace atompack::io {

// Errors of failed system calls.

// Throws the current errno as an IoError for this path.
[[noreturn]] inline void throw_errno(const std::string& path) {
  const int code = errno;
  throw IoError(code, std::strerror(code), path);
}

// Device, inode and size of a file.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  bool same_file(const FileIdentity& other) const { return device == other.device && inode == other.inode; }
};

// Changes whenever the file is written to or replaced by another file.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t seconds = 0, nanoseconds = 0;  // time of the last change
  bool operator==(const FileVersion&) const = default;
};

// Returns nullopt if there is no file.
std::optional<FileVersion> version_of(const std::string& path);
FileVersion version_of(int fd, const std::string& path);

// Also true for a dangling link.
bool exists(const std::string& path);

// Throws IoError, without opening anything, if `path` leads to a pipe, a socket, a device, a folder or a file of a
// virtual file system such as /proc, which may block. Follows links.
void check_regular_file(const std::string& path);

// Opens a regular file; never blocks.
UniqueFd open_for_reading(const std::string& path);
// Throws IoError if the descriptor is not a regular file.
FileIdentity identify(int fd, const std::string& path);

// Reads up to `into.size()` bytes at `offset`; fewer only at the end of the file.
size_t read_at(int fd, uint64_t offset, std::span<std::byte> into, const std::string& path);

// Writes all bytes; a failure may leave some of them written.
void write_at(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::string& path);

// New files written once, from front to back.

// For one thread at a time. Every failure is an IoError that names the path.
class OutputFile {
 public:
  // IoError (EEXIST) if the path exists.
  explicit OutputFile(std::string path);

  uint64_t size() const { return size_; }
  void append(Bytes bytes);
  // Makes the appended data durable, but not the file's name (UnpublishedFolder::publish).
  void sync();

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

// Writes and syncs a whole small file.
void write_new(const std::string& path, Bytes bytes);

}  // namespace atompack::io
