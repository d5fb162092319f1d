#include "io/held_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace atompack::io {

HeldFile::HeldFile(UniqueFd fd, std::string path, const FileVersion& version)
    : fd_(std::move(fd)), path_(std::move(path)), version_(version) {}

std::shared_ptr<const HeldFile> HeldFile::open(const std::string& path) {
  UniqueFd fd;
  try {
    fd = open_for_reading(path);
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return nullptr;
  }
  identify(fd.get(), path);  // throws unless it is a regular file
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw IoError(errno, std::strerror(errno), path);
  const FileVersion version{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), status.st_ctim.tv_sec,
                            status.st_ctim.tv_nsec};
  return std::shared_ptr<const HeldFile>(new HeldFile(std::move(fd), path, version));
}

std::vector<std::byte> HeldFile::read_whole(uint64_t max_bytes) const {
  const uint64_t size = identify(fd_.get(), path_).size;
  if (size > max_bytes)
    throw CorruptFileError(cat("size: expected at most ", max_bytes, " bytes, got ", size)).in_file(path_);
  std::vector<std::byte> bytes(size);
  bytes.resize(read_at(fd_.get(), 0, bytes, path_));
  return bytes;
}

}  // namespace atompack::io
