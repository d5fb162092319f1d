#include "io/local_file.h"

#include <fcntl.h>

#include "io/direct_file.h"
#include "io/mapped_file.h"

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
  for_each_page_run(ranges, version_.size, [&](const ByteRange& run) {
    ::posix_fadvise(fd(), static_cast<off_t>(run.offset), static_cast<off_t>(run.length), POSIX_FADV_WILLNEED);
  });
}

}  // namespace atompack::io
