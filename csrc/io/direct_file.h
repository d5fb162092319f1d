// Reading of local files past the kernel's page cache.
#pragma once

#include <memory>

#include "io/fetch/page_cache.h"
#include "io/local_file.h"

namespace atompack::io {

// The first `length` bytes, which the file has. Ranges of less than 128 KiB that are announced are read by io_uring and
// O_DIRECT, into 64 MiB of pages shared by all such files of a process; others by pread. `populate` starts reading as
// much as fits there. Throws IoError if the system or the file system does not allow it.
std::unique_ptr<const ByteSource> direct_bytes(std::shared_ptr<const LocalFile> file, uint64_t length, bool populate);

// Counts of these reads; zeros while no file is open.
fetch::PageCacheStats direct_stats();

}  // namespace atompack::io
