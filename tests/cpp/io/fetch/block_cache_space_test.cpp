#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "io/fetch/cached_pages.h"
#include "io/unique_fd.h"

namespace atompack::io::fetch {
namespace {

using test::group_files;
using test::kMiB;
using test::Read;
using test::read;
using test::RemoteObject;
using test::write;

// An object of the given number of groups.
RemoteObject large_object(uint64_t n_groups) {
  RemoteObject object;
  object.version.size = n_groups * kGroupPages * kPageBytes;
  return object;
}

uint64_t page_of_group(uint64_t group) { return group * kGroupPages; }

// Sets the time of the last use.
void set_age(const std::string& path, int64_t seconds) {
  const timespec time{.tv_sec = ::time(nullptr) - seconds, .tv_nsec = 0};
  const std::array<timespec, 2> times{time, time};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
}

class BlockCacheSpace : public testing::Test {
 protected:
  // Makes `n` files that take 100 KiB and more each, the first of which was used longest ago.
  std::vector<std::string> fill(uint64_t n) {
    const BlockCache cache(folder_.path(), 1 << 30);
    const RemoteObject object = large_object(n);
    std::vector<std::string> paths;
    for (uint64_t group = 0; group < n; ++group) {
      write(*object.in(cache), object, page_of_group(group), 25);
      for (const std::string& path : group_files(folder_)) {
        if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
      }
      set_age(paths.back(), static_cast<int64_t>(1000 * (n - group)));
    }
    return paths;
  }

  test::TemporaryFolder folder_;
};

TEST_F(BlockCacheSpace, StaysBelowItsLimit) {
  const BlockCache cache(folder_.path(), 8 * kMiB);
  const RemoteObject object = large_object(20);
  const auto cached = object.in(cache);
  for (uint64_t page = 0; page < 16'000; ++page) {
    write(*cached, object, page * 5 % (20 * kGroupPages));
    if (page % 500 == 0) {
      ASSERT_LE(cache.usage().bytes, 8 * kMiB + 64 * 1024) << page;
    }
  }
  EXPECT_GT(cache.stats().evicted_bytes, 40 * kMiB);
  EXPECT_EQ(cache.stats().written, 16'000U) << cache.stats().stopped;
  EXPECT_GT(cache.usage().bytes, 2 * kMiB);
}

TEST_F(BlockCacheSpace, MayBeSmallerThanAGroup) {
  for (const uint64_t limit : {64 * 1024, 300 * 1024, 2 * 1024 * 1024}) {
    const BlockCache cache(folder_.path(), limit);
    const RemoteObject object = large_object(2);
    const auto cached = object.in(cache);
    for (uint64_t page = 0; page < 2000; ++page) {
      write(*cached, object, page * 3);
      ASSERT_LE(cache.usage().bytes, limit + 64 * 1024);
    }
    EXPECT_GT(cache.stats().written, 1500U) << limit;
    write(*cached, object, 1);
    EXPECT_EQ(read(*cached, object, 1), Read::good) << limit;
  }
}

TEST_F(BlockCacheSpace, NothingFitsIntoNone) {
  const BlockCache cache(folder_.path(), 0);
  const RemoteObject object;
  for (uint64_t page = 0; page < 10; ++page) write(*object.in(cache), object, page);
  EXPECT_EQ(cache.stats().written, 0U);
  EXPECT_EQ(cache.stats().skipped, 10U);
  EXPECT_EQ(cache.stats().stopped, "the cache is full, and its files cannot be removed");
  EXPECT_TRUE(group_files(folder_).empty());
}

TEST_F(BlockCacheSpace, TheOldestGoFirst) {
  const auto paths = fill(20);
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  std::vector<bool> stayed;
  for (const std::string& path : paths) stayed.push_back(std::filesystem::exists(path));
  EXPECT_TRUE(std::ranges::is_sorted(stayed)) << testing::PrintToString(stayed);
  EXPECT_FALSE(stayed.front());
  EXPECT_TRUE(stayed[15]);  // not more than necessary: a file takes some 108 KiB
  EXPECT_TRUE(stayed.back());
}

TEST_F(BlockCacheSpace, ReadingIsUse) {
  const auto paths = fill(20);
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject old = large_object(20);
  EXPECT_EQ(read(*old.in(cache), old, page_of_group(0)), Read::good);
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  EXPECT_TRUE(std::filesystem::exists(paths[0]));
  EXPECT_FALSE(std::filesystem::exists(paths[1]));
}

TEST_F(BlockCacheSpace, FilesOfOtherProcessesGoToo) {
  fill(20);
  const BlockCache other(folder_.path(), 1 << 30);  // with open files
  const RemoteObject old = large_object(20);
  const auto cached = old.in(other);
  for (uint64_t group = 0; group < 20; ++group) ASSERT_EQ(read(*cached, old, page_of_group(group)), Read::good);
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  EXPECT_GT(cache.stats().evicted_bytes, kMiB / 2);
  uint64_t n_good = 0;
  for (uint64_t group = 0; group < 20; ++group) {
    const Read got = read(*cached, old, page_of_group(group));
    EXPECT_NE(got, Read::wrong);
    n_good += got == Read::good ? 1 : 0;
  }
  EXPECT_EQ(n_good + 1, group_files(folder_).size());  // the space of the others is free
  EXPECT_EQ(other.stats().rejected, 0U);
  write(*cached, old, page_of_group(0));  // into a new file
  EXPECT_EQ(read(*old.in(cache), old, page_of_group(0)), Read::good);
}

TEST_F(BlockCacheSpace, WhatIsWrittenAfterARemovalIsFound) {
  const RemoteObject object;
  const BlockCache cache(folder_.path(), kMiB);
  write(*object.in(cache), object, 0);
  for (const std::string& path : group_files(folder_)) std::filesystem::remove(path);
  write(*object.in(cache), object, 1);
  const BlockCache other(folder_.path(), kMiB);
  EXPECT_EQ(read(*object.in(other), object, 1), Read::good);
}

TEST_F(BlockCacheSpace, FilesThatAreBeingMadeStay) {
  const auto paths = fill(20);
  const UniqueFd in_use(::open(paths[3].c_str(), O_RDONLY));  // as another process has it
  ASSERT_EQ(::flock(in_use.get(), LOCK_SH), 0);
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  EXPECT_TRUE(std::filesystem::exists(paths[3]));
  EXPECT_FALSE(std::filesystem::exists(paths[4]));
}

TEST_F(BlockCacheSpace, NothingIsWrittenIfNoFileCanBeRemoved) {
  auto paths = fill(20);
  std::vector<UniqueFd> in_use;
  for (const std::string& path : paths) {
    in_use.emplace_back(::open(path.c_str(), O_RDONLY));
    ASSERT_EQ(::flock(in_use.back().get(), LOCK_SH), 0);
  }
  const BlockCache cache(folder_.path(), kMiB, {.retry_after = std::chrono::milliseconds(1)});
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  EXPECT_EQ(cache.stats().skipped, 1U);
  EXPECT_EQ(cache.stats().stopped, "the cache is full, and its files cannot be removed");
  std::ranges::sort(paths);
  EXPECT_EQ(group_files(folder_), paths);
  const RemoteObject old = large_object(20);
  EXPECT_EQ(read(*old.in(cache), old, page_of_group(7) + 3), Read::good);

  in_use.clear();
  for (int i = 0; i < 400 && cache.stats().written == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    write(*object.in(cache), object, 0);
  }
  EXPECT_EQ(cache.stats().written, 1U);
  EXPECT_EQ(cache.stats().stopped, "");
}

TEST_F(BlockCacheSpace, ABusyAccountSkipsWrites) {
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject object;
  const UniqueFd busy(::open((folder_ / "account.lock").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::flock(busy.get(), LOCK_EX), 0);
  write(*object.in(cache), object, 0);
  EXPECT_EQ(cache.stats().skipped, 1U);
  EXPECT_EQ(cache.stats().stopped, "");
  ASSERT_EQ(::flock(busy.get(), LOCK_UN), 0);
  write(*object.in(cache), object, 0);
  EXPECT_EQ(cache.stats().written, 1U);
}

TEST_F(BlockCacheSpace, ADamagedAccountIsAddedUpAnew) {
  fill(20);
  for (const std::string& content : {std::string(), std::string("x"), std::string(12, '\0'), std::string(12, 'x')}) {
    std::ofstream(folder_ / "account.lock", std::ios::binary | std::ios::trunc) << content;
    const BlockCache cache(folder_.path(), kMiB);
    const RemoteObject object = {.url = "s3://bucket/new"};
    write(*object.in(cache), object, 0);
    EXPECT_EQ(cache.stats().written, 1U);
    EXPECT_LE(cache.usage().bytes, kMiB);
    EXPECT_EQ(std::filesystem::file_size(folder_ / "account.lock"), 12U);
    fill(20);
  }
}

TEST_F(BlockCacheSpace, ForeignFilesStay) {
  fill(20);
  std::ofstream(folder_ / "mine.pages") << std::string(kMiB, 'x');
  set_age(folder_ / "mine.pages", 1'000'000);
  std::filesystem::create_directory(folder_ / (std::string(64, '0') + "-0.pages"));
  const BlockCache cache(folder_.path(), kMiB);
  const RemoteObject object = {.url = "s3://bucket/new"};
  write(*object.in(cache), object, 0);
  EXPECT_EQ(cache.stats().written, 1U);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mine.pages"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / (std::string(64, '0') + "-0.pages")));
}

TEST_F(BlockCacheSpace, ThreadsReadAndWriteDuringEviction) {
  const BlockCache cache(folder_.path(), 4 * kMiB, {.max_open_files = 2});
  const RemoteObject object = large_object(6);
  const auto cached = object.in(cache);
  std::atomic<uint64_t> wrong = 0, good = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::minstd_rand random(thread + 1);
        for (int i = 0; i < 1500; ++i) {
          const uint64_t page = page_of_group(random() % 6) + random() % 300;
          const Read got = read(*cached, object, page);
          wrong += got == Read::wrong ? 1 : 0;
          good += got == Read::good ? 1 : 0;
          if (got == Read::absent) write(*cached, object, page);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(good, 100U);
  EXPECT_GT(cache.stats().evicted_bytes, 0U);
  EXPECT_EQ(cache.stats().rejected, 0U);
  EXPECT_EQ(cache.stats().hits, good);
  EXPECT_LE(cache.usage().bytes, 4 * kMiB + 64 * 1024);
}

}  // namespace
}  // namespace atompack::io::fetch
