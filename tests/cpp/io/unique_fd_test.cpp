#include "io/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace atompack::io {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open_descriptor(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWithItsOwner) {
  const int raw = open_null();
  {
    const UniqueFd fd(raw);
    EXPECT_TRUE(fd);
    EXPECT_EQ(fd.get(), raw);
  }
  EXPECT_FALSE(is_open_descriptor(raw));
}

TEST(UniqueFd, IsEmptyByDefault) {
  EXPECT_FALSE(UniqueFd());
  EXPECT_EQ(UniqueFd().get(), -1);
}

TEST(UniqueFd, MovesAndIsNeverCopied) {
  const int raw = open_null();
  UniqueFd first(raw);
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), raw);
  UniqueFd third;
  third = std::move(second);
  EXPECT_EQ(third.get(), raw);
  EXPECT_TRUE(is_open_descriptor(raw));
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
