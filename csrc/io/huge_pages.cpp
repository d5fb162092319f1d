#include "io/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <new>

#include "io/read_ahead.h"

namespace atompack::io {
namespace {

// True in a virtual machine whose kernel returns free memory to the host (free page reporting). The parameter is
// negative unless that is in use. Read when the library is loaded, so that no fork can interrupt it.
const bool returns_free_memory = [] {
  int order = -1;
  std::ifstream("/sys/module/page_reporting/parameters/page_reporting_order") >> order;
  return order > 0;
}();

constexpr size_t kPage = size_t{2} << 20;

}  // namespace

// Memory is returned to the host in pieces as large as a huge page. Once those that were not returned are used up, each
// huge page waits for the host, which takes four times as long as getting the same memory in small pages.
void prefer_huge_pages(void* memory, size_t bytes) {
  constexpr size_t kUsuallyKept = size_t{64} << 20;
  if (returns_free_memory) bytes = std::min(bytes, kUsuallyKept);
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(memory) % kPage) % kPage;  // up to the first whole page
  if (bytes < before + kPage) return;
  ::madvise(static_cast<std::byte*>(memory) + before, (bytes - before) / kPage * kPage, MADV_HUGEPAGE);
}

void* allocate_temporary(size_t bytes) {
  constexpr size_t kMuch = size_t{256} << 10;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = bytes < kMuch ? std::malloc(bytes) : std::aligned_alloc(kPage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  if (bytes >= kMuch) prefer_huge_pages(memory, rounded);
  return memory;
}

void populate(void* memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const size_t page = page_bytes();
  const size_t before = (page - reinterpret_cast<uintptr_t>(memory) % page) % page;
  if (bytes < before + page) return;
  // Only a hint: without it each page is a fault of its own.
  ::madvise(static_cast<std::byte*>(memory) + before, (bytes - before) / page * page, MADV_POPULATE_WRITE);
#endif
}

}  // namespace atompack::io
