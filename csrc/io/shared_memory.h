// Anonymous shared memory: it has a descriptor and no name, so nothing can be left behind in /dev/shm.
#pragma once

#include <cstdint>

#include "io/unique_fd.h"

namespace atompack::io {

UniqueFd create_shared_memory(uint64_t bytes);

}  // namespace atompack::io
