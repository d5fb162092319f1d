#include "io/huge_pages.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "io/read_ahead.h"

namespace atompack::io {

void prefer_huge_pages(void* memory, size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(memory) % kPage) % kPage;  // up to the first whole page
  if (bytes < before + kPage) return;
  ::madvise(static_cast<std::byte*>(memory) + before, (bytes - before) / kPage * kPage, MADV_HUGEPAGE);
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
