#include "io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace atompack::io {

MappedFile::MappedFile(UniqueFd fd, uint64_t length, std::string path, Access access, bool populate)
    : fd_(std::move(fd)), path_(std::move(path)), length_(length) {
  if (length_ == 0) return;  // an empty mapping is not possible
  const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
  address_ = ::mmap(nullptr, length_, PROT_READ, flags, fd_.get(), 0);
  if (address_ == MAP_FAILED) {
    const int code = errno;
    throw IoError(code, cat("mmap: ", std::strerror(code)), path_);
  }
  // Only a hint: errors do not change what is read.
  if (access == Access::random) ::madvise(address_, length_, MADV_RANDOM);
  if (access == Access::sequential) ::madvise(address_, length_, MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, length_);
}

void MappedFile::check_not_shrunk() const {
  const uint64_t size = identify(fd_.get(), path_).size;
  if (size < length_) {
    throw CorruptFileError(cat("the file shrank while it was open: expected ", length_, " bytes, got ", size))
        .in_file(path_);
  }
}

}  // namespace atompack::io
