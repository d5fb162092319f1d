#include "io/readable_file.h"

#include "io/file.h"

namespace atompack::io {

OpenFile::OpenFile(const std::string& path) : path_(path), fd_(open_for_reading(path)) {}

uint64_t OpenFile::size() const { return identify(fd_.get(), path_).size; }

size_t OpenFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  return io::read_at(fd_.get(), offset, into, path_);
}

}  // namespace atompack::io
