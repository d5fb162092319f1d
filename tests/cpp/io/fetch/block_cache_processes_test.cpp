#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "io/fetch/cached_pages.h"

namespace atompack::io::fetch {
namespace {

using test::count_good;
using test::group_files;
using test::kMiB;
using test::Read;
using test::read;
using test::RemoteObject;
using test::start_child;
using test::succeeds;
using test::write;

class BlockCacheOfProcesses : public testing::Test {
 protected:
  BlockCacheOfProcesses() { object_.version.size = 3 * kGroupPages * kPageBytes - 50; }

  // Pages in all groups, the last one included.
  uint64_t any_page(std::minstd_rand& random) const {
    return std::min((random() % 3) * kGroupPages + kGroupPages - 1 - random() % 64, last_page());
  }
  uint64_t last_page() const { return count_pages(object_.version.size) - 1; }

  test::TemporaryFolder folder_;
  RemoteObject object_;
};

TEST_F(BlockCacheOfProcesses, KilledWritersLeaveNoWrongPage) {
  uint64_t good = 0;
  for (unsigned round = 0; round < 150; ++round) {
    const pid_t writer = start_child([&] {
      const BlockCache cache(folder_.path(), 2 * kMiB);
      const auto cached = object_.in(cache);
      std::minstd_rand random(round);
      for (;;) write(*cached, object_, any_page(random));
      return true;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 397 * round % 6000));
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    ASSERT_FALSE(succeeds(writer));
    const BlockCache cache(folder_.path(), 2 * kMiB);
    const auto cached = object_.in(cache);
    std::minstd_rand random(round);
    for (int i = 0; i < 200; ++i) {
      const Read got = read(*cached, object_, any_page(random));
      ASSERT_NE(got, Read::wrong);
      good += got == Read::good ? 1 : 0;
    }
    ASSERT_EQ(cache.stats().rejected, 0U);
    write(*cached, object_, 5);
    ASSERT_EQ(read(*cached, object_, 5), Read::good);
  }
  EXPECT_GT(good, 1000U);
}

// Of processes that write the same pages while files are evicted.
TEST_F(BlockCacheOfProcesses, ProcessesShareAndEvict) {
  constexpr uint64_t kLimit = 1 * kMiB;
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (unsigned number = 0; number < kProcesses; ++number) {
    children.push_back(start_child([&] {
      const BlockCache cache(folder_.path(), kLimit);
      RemoteObject object = object_;
      std::minstd_rand random(number);
      uint64_t good = 0;
      for (int i = 0; i < 3000; ++i) {
        object.url = cat("s3://bucket/", random() % 5);
        const auto cached = object.in(cache);
        const uint64_t page = any_page(random);
        const Read got = read(*cached, object, page);
        if (got == Read::wrong) return false;
        good += got == Read::good ? 1 : 0;
        if (got == Read::absent) write(*cached, object, page);
      }
      return cache.stats().rejected == 0 && good > 20;
    }));
  }
  uint64_t max_bytes = 0;
  for (int i = 0; i < 50; ++i) {
    max_bytes = std::max(max_bytes, BlockCache::usage(folder_.path()).bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeds(child));
  EXPECT_LE(std::max(max_bytes, BlockCache::usage(folder_.path()).bytes), kLimit + kProcesses * 64 * 1024);
  EXPECT_GT(max_bytes, kLimit / 2);
}

TEST_F(BlockCacheOfProcesses, AForkGoesOnWithItsOwnFiles) {
  const BlockCache cache(folder_.path(), 1 << 30);
  const auto cached = object_.in(cache);
  write(*cached, object_, 0, 10);
  EXPECT_EQ(read(*cached, object_, 0), Read::good);
  EXPECT_TRUE(succeeds(start_child([&] {
    const bool was_read = read(*cached, object_, 3) == Read::good;
    write(*cached, object_, 20);
    return was_read && cache.stats().hits == 1 && cache.stats().written == 1;
  })));
  EXPECT_EQ(read(*cached, object_, 20), Read::good);
  EXPECT_EQ(cache.stats().hits, 2U);
}

TEST_F(BlockCacheOfProcesses, AForkFromABusyProcess) {
  const BlockCache cache(folder_.path(), 1 << 30);
  const auto cached = object_.in(cache);
  write(*cached, object_, 0, 64);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (unsigned number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      for (uint64_t page = number; !stop; page = (page + 1) % 64) write(*cached, object_, page);
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(succeeds(start_child([&] {
      // The parent may be at the account of disk space.
      while (cache.stats().written == 0) write(*cached, object_, 100);
      return read(*cached, object_, 5) == Read::good && read(*cached, object_, 100) == Read::good;
    })));
  }
  stop = true;
}

TEST_F(BlockCacheOfProcesses, ChildrenThatDoNotUseTheCacheKeepNoFile) {
  std::optional<BlockCache> cache(std::in_place, folder_.path(), kMiB);
  write(*object_.in(*cache), object_, 0, 10);
  const std::string path = group_files(folder_).front();
  const pid_t idle = start_child([] { return ::pause() == 0; });
  cache.reset();
  const BlockCache later(folder_.path(), kMiB);
  RemoteObject other = object_;
  other.url += "2";
  for (uint64_t page = 0; page < 250; ++page) write(*other.in(later), other, page);
  EXPECT_FALSE(std::filesystem::exists(path)) << "the child still holds the lock";
  ::kill(idle, SIGKILL);
  EXPECT_FALSE(succeeds(idle));
}

TEST_F(BlockCacheOfProcesses, AFileTooLargeForTheLimitOfTheProcess) {
  const BlockCache cache(folder_.path(), 1 << 30, {.retry_after = std::chrono::milliseconds(50)});
  const auto cached = object_.in(cache);
  write(*cached, object_, 0, 10);
  EXPECT_TRUE(succeeds(start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return false;
    write(*cached, object_, 20);
    const BlockCacheStats full = cache.stats();
    write(*cached, object_, 21);  // not tried
    const bool is_stopped = full.stopped.ends_with(": File too large") && cache.stats().skipped == 2;
    const bool is_read = read(*cached, object_, 3) == Read::good;

    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &unlimited) != 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    write(*cached, object_, 20);
    return is_stopped && is_read && read(*cached, object_, 20) == Read::good && cache.stats().stopped.empty();
  })));
}

// In a mount namespace of its own, where the user may have one; otherwise the limit above stands for it.
TEST_F(BlockCacheOfProcesses, AFullDisk) {
  EXPECT_TRUE(succeeds(start_child([&] {
    const bool can_mount = ::unshare(CLONE_NEWNS) == 0 &&
                           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!can_mount) return errno == EPERM || errno == EACCES || errno == EINVAL;  // the last in a chroot
    const BlockCache cache(folder_.path(), 1 << 30);
    const auto cached = object_.in(cache);
    for (uint64_t page = 0; page < 300; ++page) write(*cached, object_, page);
    const BlockCacheStats stats = cache.stats();
    return stats.stopped.ends_with(": No space left on device") && stats.written > 200 && stats.skipped > 40 &&
           count_good(*cached, object_) == stats.written && stats.rejected == 0;
  })));
}

TEST_F(BlockCacheOfProcesses, AReadOnlyFolderIsRead) {
  {
    const BlockCache cache(folder_.path(), 1 << 30);
    write(*object_.in(cache), object_, 0, 10);
  }
  std::filesystem::permissions(group_files(folder_).front(), std::filesystem::perms(0444));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  EXPECT_TRUE(succeeds(start_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::getuid() == 0 && ::setuid(kNobody) != 0) return false;
    const BlockCache cache(folder_.path(), 1 << 30);
    const auto cached = object_.in(cache);
    const bool is_read = read(*cached, object_, 3) == Read::good;
    write(*cached, object_, 20);
    return is_read && read(*cached, object_, 4) == Read::good && read(*cached, object_, 20) == Read::absent &&
           cache.stats().stopped.ends_with(": Permission denied") && cache.stats().skipped == 1;
  })));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
}

}  // namespace
}  // namespace atompack::io::fetch
