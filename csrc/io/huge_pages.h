// Large pages for large memory.
#pragma once

#include <cstddef>

namespace atompack::io {

// A hint, taken where the system allows it: memory that is about to be filled costs a fault for each large page of it
// instead of each small one. Nothing happens to memory that is too small for that.
void prefer_huge_pages(void* memory, size_t bytes);

}  // namespace atompack::io
