#include "io/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace atompack::io {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open_descriptor(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, MovesAndClosesWithItsOwner) {
  const int raw = open_null();
  {
    UniqueFd first(raw), third;
    UniqueFd second(std::move(first));
    EXPECT_FALSE(third);
    third = std::move(second);
    EXPECT_EQ(third.get(), raw);
    EXPECT_TRUE(is_open_descriptor(raw));
  }
  EXPECT_FALSE(is_open_descriptor(raw));
  EXPECT_FALSE(std::is_copy_constructible_v<UniqueFd>);
}

TEST(UniqueFd, ReleaseGivesTheDescriptorAway) {
  int raw = -1;
  {
    UniqueFd fd(open_null());
    raw = fd.release();
    EXPECT_FALSE(fd);
  }
  EXPECT_TRUE(is_open_descriptor(raw));
  EXPECT_EQ(::close(raw), 0);
}

}  // namespace
}  // namespace atompack::io
