// Files that are not in memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "io/file.h"
#include "io/read_ahead.h"

namespace atompack::test {

// Drops a file from memory; false if its file system has no other place for it.
inline bool evict(const std::string& path) {
  const io::UniqueFd fd = io::open_for_reading(path);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  for (int i = 0; i < 20; ++i) {  // pages that are being written or queued are not dropped at once
    ::fsync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (!io::is_in_memory(fd.get(), 0)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// For tests of what only happens on a disk.
#define ATOMPACK_EVICT(path) \
  if (!atompack::test::evict(path)) GTEST_SKIP() << "the file system of " << (path) << " keeps files in memory"

}  // namespace atompack::test
