#include "io/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace atompack::io {
namespace {

TEST(HugePages, LeaveWhatIsInTheMemory) {
  constexpr size_t kBytes = (size_t{9} << 20) + 123;
  std::vector<char> memory(kBytes, 'x');
  for (const size_t begin : {size_t{0}, size_t{1}, size_t{4097}}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{2} << 20, kBytes - begin}) {
      prefer_huge_pages(memory.data() + begin, bytes);
    }
  }
  EXPECT_EQ(memory, std::vector<char>(kBytes, 'x'));
  std::memset(memory.data(), 'y', kBytes);
  EXPECT_EQ(memory, std::vector<char>(kBytes, 'y'));
}

TEST(HugePages, OfNothing) { prefer_huge_pages(nullptr, 0); }

}  // namespace
}  // namespace atompack::io
