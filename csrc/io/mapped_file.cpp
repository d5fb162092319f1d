#include "io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace atompack::io {

MappedFile::MappedFile(UniqueFd fd, uint64_t length, std::string path, Access access, bool populate)
    : ByteSource(std::move(path), length), fd_(std::move(fd)) {
  if (length > 0) {  // an empty mapping is not possible
    const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
    void* const address = ::mmap(nullptr, length, PROT_READ, flags, fd_.get(), 0);
    if (address == MAP_FAILED) {
      const int code = errno;
      throw IoError(code, cat("mmap: ", std::strerror(code)), this->path());
    }
    address_ = address;
    // Only a hint: errors do not change the bytes.
    if (access == Access::random) ::madvise(address_, length, MADV_RANDOM);
    if (access == Access::sequential) ::madvise(address_, length, MADV_SEQUENTIAL);
  }
  set_memory(static_cast<const std::byte*>(address_));
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, length());
}

void MappedFile::check_not_shrunk() const { check_file_length(fd_, *this); }

}  // namespace atompack::io
