// Huge pages for large allocations.
#pragma once

#include <cstddef>

namespace atompack::io {

// Hint: memory that is about to be filled costs one page fault per huge page instead of one per small page. Does
// nothing for memory smaller than a huge page.
void prefer_huge_pages(void* memory, size_t bytes);

// Maps fresh pages in one call, where the kernel can.
void populate(void* memory, size_t bytes);

}  // namespace atompack::io
