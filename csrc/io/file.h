// Opening, measuring and reading plain files. Every failure is an IoError that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/unique_fd.h"

namespace atompack::io {

// What tells one file from another, and how long it is.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  bool same_file(const FileIdentity& other) const { return device == other.device && inode == other.inode; }
};

// What changes when a file is written to, and when another one takes its place.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t seconds = 0, nanoseconds = 0;  // of the last change
  bool operator==(const FileVersion&) const = default;
};

// Nothing where there is no file.
std::optional<FileVersion> version_of(const std::string& path);

// Also of a link that leads nowhere.
bool exists(const std::string& path);

// Throws IoError at once, without opening anything, where `path` leads to a pipe, a socket, a device, a folder, or to a
// file that the kernel makes up while it is read (in /proc, say), which may block. Links are followed.
void check_regular_file(const std::string& path);

// Opens a regular file; never blocks.
UniqueFd open_for_reading(const std::string& path);
// Throws IoError where it is no regular file.
FileIdentity identify(int fd, const std::string& path);

// Reads up to `into.size()` bytes at `offset`; fewer only where the file ends.
size_t read_at(int fd, uint64_t offset, std::span<std::byte> into, const std::string& path);

// All of the bytes; a failure may leave some of them written.
void write_at(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::string& path);

// A file that is small by its nature. Throws CorruptFileError if it has more than `most` bytes.
std::vector<std::byte> read_whole(const std::string& path, uint64_t most);

}  // namespace atompack::io
