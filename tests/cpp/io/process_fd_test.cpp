#include "io/process_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <optional>
#include <string>
#include <vector>

#include "fork.h"
#include "io/temporary_file.h"

namespace atompack::io {
namespace {

using test::holds_in_child;

UniqueFd opened(const std::string& path) { return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(ProcessFd, ClosesWithItsOwner) {
  const test::TemporaryFile file({});
  int fd = -1;
  {
    ProcessFd first(opened(file.path()));
    fd = first.get();
    const ProcessFd second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(ProcessFd, AssignmentClosesTheFormerOne) {
  const test::TemporaryFile file({});
  ProcessFd kept(opened(file.path()));
  const int before = kept.get();
  kept = ProcessFd(opened(file.path()));
  EXPECT_FALSE(is_open(before));
  EXPECT_TRUE(is_open(kept.get()));
}

TEST(ProcessFd, AForkDoesNotHaveIt) {
  const test::TemporaryFile file({});
  std::optional<ProcessFd> owned(opened(file.path()));
  const int fd = owned->get();
  EXPECT_TRUE(holds_in_child([&] {
    if (is_open(fd)) return false;
    const UniqueFd other = opened(file.path());  // has the number that became free
    owned.reset();
    return other.get() == fd && is_open(fd);
  }));
  EXPECT_TRUE(is_open(fd));
}

TEST(ProcessFd, AForkHasItsOwn) {
  const test::TemporaryFile file({});
  const ProcessFd of_parent(opened(file.path()));
  EXPECT_TRUE(holds_in_child([&] {
    std::optional<ProcessFd> own(opened(file.path()));
    const int fd = own->get();
    const bool was_open = is_open(fd);
    const bool is_not_inherited = holds_in_child([&] { return !is_open(fd); });
    own.reset();
    return was_open && is_not_inherited && !is_open(fd);
  }));
}

TEST(ProcessFd, ALockDoesNotStayWithAFork) {
  const test::TemporaryFile file({});
  int stop[2];
  ASSERT_EQ(::pipe(stop), 0);
  std::optional<ProcessFd> owned(opened(file.path()));
  ASSERT_EQ(::flock(owned->get(), LOCK_SH), 0);
  int started[2];
  ASSERT_EQ(::pipe(started), 0);
  const pid_t child = test::start_child([&] {
    ::close(stop[1]);
    char byte = 0;
    return ::write(started[1], &byte, 1) == 1 && ::read(stop[0], &byte, 1) == 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(started[0], &byte, 1), 1);
  owned.reset();
  const UniqueFd other = opened(file.path());
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << "the child still holds the lock";
  for (const int fd : {stop[1], stop[0], started[0], started[1]}) ::close(fd);
  EXPECT_TRUE(test::succeeds(child));
}

TEST(ProcessFd, TheNumberOfThemIsLimited) {
  const test::TemporaryFile file({});
  constexpr size_t kMore = 5000;
  std::vector<ProcessFd> owned;
  const UniqueFd source = opened(file.path());
  const size_t before = test::count_open_descriptors();
  while (owned.size() < kMore) {
    UniqueFd fd(::dup(source.get()));
    if (!fd) break;  // the system's limit is lower
    owned.emplace_back(std::move(fd));
    if (!owned.back()) break;
  }
  EXPECT_LT(owned.size(), kMore);
  const bool was_refused = !owned.back();
  owned.clear();
  EXPECT_EQ(test::count_open_descriptors(), before);
  EXPECT_TRUE(ProcessFd(opened(file.path()))) << was_refused;
}

}  // namespace
}  // namespace atompack::io
