// Files that are not in memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "io/file.h"
#include "io/read_ahead.h"

namespace atompack::test {

// For each page of a file, whether it is in memory. mincore() answers truthfully of one's own files and reads nothing,
// where a read that must not wait starts one, which a fast disk may end in time.
inline std::vector<unsigned char> pages_in_memory(int fd, const std::string& path) {
  const size_t page_size = io::page_bytes();
  const size_t length = io::identify(fd, path).size;
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((length + page_size - 1) / page_size, 1);
  EXPECT_NE(address, MAP_FAILED);
  EXPECT_EQ(::mincore(address, length, pages.data()), 0);
  ::munmap(address, length);
  for (unsigned char& page : pages) page &= 1;
  return pages;
}

// Drops a file from memory; false if its file system has no other place for its first pages. Of those after them, what
// somebody has mapped and used may stay.
inline bool evict(const std::string& path, size_t n_pages = SIZE_MAX) {
  const io::UniqueFd fd = io::open_for_reading(path);
  for (int i = 0; i < 20; ++i) {  // pages that are being written or queued are not dropped immediately
    ::fsync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<unsigned char> pages = pages_in_memory(fd.get(), path);
    pages.resize(std::min(n_pages, pages.size()));
    if (std::ranges::count(pages, 1) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// Repeats an attempt, which evicts files first, until it sees that they are not in memory. False if it never does: a
// fast disk gives pages back before it can be asked.
template <typename Attempt>
bool is_seen_absent(const Attempt& attempt) {
  for (int i = 0; i < 20; ++i) {
    if (attempt()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// For tests of what only happens on a disk. Arguments are those of evict().
#define ATOMPACK_EVICT(...) \
  if (!atompack::test::evict(__VA_ARGS__)) GTEST_SKIP() << "the file system of the file keeps it in memory"

// As is_seen_absent(), after ATOMPACK_EVICT.
#define ATOMPACK_UNTIL_ABSENT(...) \
  if (!atompack::test::is_seen_absent(__VA_ARGS__)) GTEST_SKIP() << "the disk gives pages back before that is seen"

}  // namespace atompack::test
