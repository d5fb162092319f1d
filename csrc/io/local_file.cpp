#include "io/local_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "io/direct_file.h"

namespace atompack::io {

LocalFile::LocalFile(std::string path) : LocalFile(path, path) {}

LocalFile::LocalFile(const std::string& place, std::string path)
    : path_(std::move(path)), fd_(open_for_reading(place)), version_(version_of(fd_.get(), path_)) {}

uint64_t LocalFile::size() const { return identify(fd(), path_).size; }

size_t LocalFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  return io::read_at(fd(), offset, into, path_);
}

std::unique_ptr<const ByteSource> LocalFile::bytes(uint64_t length, Access access, bool populate) const {
  if (access == Access::read) return std::make_unique<const FileRanges>(shared_from_this(), length);
  auto self = std::static_pointer_cast<const LocalFile>(shared_from_this());
  if (access == Access::direct) return direct_bytes(std::move(self), length, populate);
  return std::make_unique<const MappedFile>(std::move(self), length, access, populate);
}

void LocalFile::announce(std::span<const ByteRange> ranges) const {
  for_each_page_run(ranges, version_.size, page_bytes(), [&](const ByteRange& run) {
    ::posix_fadvise(fd(), static_cast<off_t>(run.offset), static_cast<off_t>(run.length), POSIX_FADV_WILLNEED);
  });
}

MappedFile::MappedFile(std::shared_ptr<const LocalFile> file, uint64_t length, Access access, bool populate)
    : ByteSource(file->path(), length),
      file_(std::move(file)),
      adapts_(length > 0 && access != Access::sequential),
      is_random_(access == Access::random) {
  if (length > 0) {  // an empty mapping is not possible
    const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
    void* const address = ::mmap(nullptr, length, PROT_READ, flags, file_->fd(), 0);
    if (address == MAP_FAILED) {
      const int code = errno;
      throw IoError(code, cat("mmap: ", std::strerror(code)), this->path());
    }
    address_ = address;
    // Only a hint: errors do not change the bytes.
    if (access == Access::random) ::madvise(address_, length, MADV_RANDOM);
    if (access == Access::sequential) ::madvise(address_, length, MADV_SEQUENTIAL);
    if (adapts_) ::posix_fadvise(file_->fd(), 0, 0, POSIX_FADV_RANDOM);  // samples read nothing but their page
  }
  set_memory(static_cast<const std::byte*>(address_));
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, length());
}

void MappedFile::sample(std::span<const ByteRange> ranges) const {
  const Residency::State state = residency_.sample(file_->fd(), ranges);
  // For random reads the kernel would read much more than a record, and drop as much from memory.
  if (state == Residency::State::absent && !is_random_.exchange(true)) ::madvise(address_, length(), MADV_RANDOM);
}

void MappedFile::announce(std::span<const ByteRange> ranges) const {
  for_each_page_run(ranges, length(), page_bytes(), [&](const ByteRange& run) {
    ::madvise(static_cast<std::byte*>(address_) + run.offset, run.length, MADV_WILLNEED);
  });
}

void MappedFile::check_not_shrunk() const { check_file_length(*file_, length()); }

}  // namespace atompack::io
