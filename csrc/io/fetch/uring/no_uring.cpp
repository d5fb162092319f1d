// Without liburing there are no direct reads.
#include <cerrno>

#include "base/error.h"
#include "io/fetch/uring/uring_loop.h"

namespace atompack::io::fetch {

bool is_uring_available() { return false; }

class UringLoop::Ring {};

UringLoop::UringLoop() : ring_([] { return std::make_unique<Ring>(); }) {
  throw IoError(ENOSYS, "not available here (the package was built without liburing)", "io_uring");
}

UringLoop::~UringLoop() = default;

void UringLoop::start(std::unique_ptr<DirectRead>) const {}

}  // namespace atompack::io::fetch
