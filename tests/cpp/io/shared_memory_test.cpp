#include "io/shared_ring.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "byte_string.h"
#include "io/file.h"

namespace atompack::io {
namespace {

TEST(SharedMemory, HasTheSizeAskedForAndBeginsAsZeros) {
  const UniqueFd fd = create_shared_memory(10000);
  EXPECT_EQ(identify(fd.get(), "memfd").size, 10000U);
  std::vector<std::byte> bytes(20000, std::byte{1});
  bytes.resize(read_at(fd.get(), 0, bytes, "memfd"));
  EXPECT_EQ(bytes, std::vector<std::byte>(10000));
}

TEST(SharedMemory, MayBeEmpty) { EXPECT_EQ(identify(create_shared_memory(0).get(), "memfd").size, 0U); }

TEST(SharedMemory, TooMuchIsASystemError) {
  try {
    create_shared_memory(std::numeric_limits<uint64_t>::max() / 2 + 1);  // negative as a file size
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), EINVAL);
    EXPECT_STREQ(error.what(), "memfd: 9223372036854775808 bytes of shared memory: Invalid argument");
  }
}

}  // namespace
}  // namespace atompack::io
