#include "io/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace atompack::io {

UniqueFd create_shared_memory(uint64_t bytes) {
  UniqueFd fd(::memfd_create("atompack_batch", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    throw IoError(code, cat(bytes, " bytes of shared memory: ", std::strerror(code)), "memfd");
  }
  return fd;
}

}  // namespace atompack::io
