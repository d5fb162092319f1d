#include "io/fetch/page_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "io/fetch/cached_file.h"
#include "io/fetch/cached_pages.h"
#include "io/fetch/page.h"
#include "message_of.h"
#include "threads/process.h"

namespace atompack::io::fetch {
namespace {

using test::BusyReader;
using test::CachedFile;
using test::HeldFile;
using test::HeldReader;
using test::io_error;
using test::kPage;
using test::message_of;
using test::random_bytes;

TEST(PageCache, AReadThatFailsNowAndThenIsRightOrAnError) {
  CachedFile<BusyReader> cached(40 * kPage, 8, size_t{3}, uint64_t{5});
  std::atomic<int> n_errors = 0;
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 300; ++i) {
        const uint64_t offset = random() % (38 * kPage), n = random() % (2 * kPage) + 1;
        try {
          ASSERT_EQ(cached.read(offset, n), cached.expected(offset, n));
        } catch (const IoError& error) {
          ASSERT_EQ(error.code(), EIO);
          ++n_errors;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_errors, 0);
}

TEST(PageCache, AFailedRequestIsAnErrorOfItsReadersAndTriedAgain) {
  HeldFile cached(10 * kPage, 10);
  std::vector<std::future<std::vector<std::byte>>> results;
  for (int i = 0; i < 3; ++i) results.push_back(cached.start_reading(0, 10));
  cached.reader->wait_for(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cached.reader->answer(0, io_error(ESTALE));
  for (auto& result : results) EXPECT_EQ(message_of<IoError>([&] { result.get(); }), "s3://b/k: the server");
  EXPECT_EQ(cached.reader->n_requests(), 1U);
  EXPECT_EQ(cached.read_answered(0, 10), cached.expected(0, 10));
  EXPECT_EQ(cached.reader->n_requests(), 2U);
}

TEST(PageCache, AFailedAnnouncedRequestIsTriedAgainByTheRead) {
  HeldFile cached(10 * kPage, 10);
  cached.announce({{0, 1}});
  cached.reader->answer(0, io_error(EIO));
  EXPECT_EQ(cached.read_answered(0, 10), cached.expected(0, 10));
}

TEST(PageCache, AReaderMayThrow) {
  HeldFile cached(10 * kPage, 10);
  cached.reader->refuse(io_error(EACCES));
  cached.announce({{0, 1}});
  EXPECT_EQ(message_of<IoError>([&] { cached.read(0, 10); }), "s3://b/k: the server");
  cached.reader->refuse(nullptr);
  EXPECT_EQ(cached.read_answered(0, 10), cached.expected(0, 10));
}

TEST(PageCache, MayBeDestroyedWhileRequestsAreOnTheirWay) {
  auto reader = std::make_shared<const HeldReader>(random_bytes(100 * kPage));
  {
    PageCache cache(100 * kPage);
    const PagedFile file = cache.add(100 * kPage, reader, nullptr);
    cache.announce(file, std::array{ByteRange{0, 1}, ByteRange{20 * kPage, 30 * kPage}});
  }
  reader->answer_all();
}

std::atomic<bool> is_interrupted = false;

void throw_if_interrupted() {
  if (is_interrupted) throw std::runtime_error("interrupted");
}

class PageCacheInterruption : public testing::Test {
 protected:
  PageCacheInterruption() { threads::set_interruption_check(&throw_if_interrupted); }
  ~PageCacheInterruption() override {
    threads::set_interruption_check(nullptr);
    is_interrupted = false;
  }
};

TEST_F(PageCacheInterruption, EndsAWaitAndLeavesTheCacheUsable) {
  HeldFile cached(100 * kPage, 10);
  auto result = cached.start_reading(0, 10);
  cached.reader->wait_for(1);
  is_interrupted = true;
  EXPECT_EQ(message_of<std::runtime_error>([&] { result.get(); }), "interrupted");
  is_interrupted = false;
  EXPECT_EQ(cached.read_answered(0, 10), cached.expected(0, 10));
  EXPECT_EQ(cached.reader->n_requests(), 1U);
  for (uint64_t page = 1; page < 30; ++page) cached.read_answered(page * kPage, 1);
  EXPECT_EQ(cached.cache.stats().held_bytes, 10 * kPage);  // the page of the interrupted read too was let go
}

TEST_F(PageCacheInterruption, EndsAWaitWhileOtherPagesArrive) {
  HeldFile cached(10000 * kPage, 10);
  auto result = cached.start_reading(0, 10);
  cached.reader->wait_for(1);
  is_interrupted = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  size_t n = 1;
  while (result.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    cached.announce({{10 * n * kPage, 1}});
    cached.reader->answer(n++);
  }
  EXPECT_EQ(message_of<std::runtime_error>([&] { result.get(); }), "interrupted");
  cached.reader->answer(0);
}

TEST(PageCacheFork, AForkFetchesForItself) {
  HeldFile cached(10 * kPage, 10);
  cached.cache.put(cached.file, kPage, cached.expected(kPage, kPage));
  cached.announce({{0, 1}});
  const pid_t child = test::start_child([&] {
    const auto own = std::make_shared<const HeldReader>(cached.reader->object());
    cached.file.reader = own;
    const auto fresh = cached.cache.add(10 * kPage, own, nullptr);
    bool is_right = fresh.number != cached.file.number;
    cached.cache.announce(cached.file, std::array{ByteRange{0, 1}});
    is_right = is_right && own->n_requests() == 1;
    own->answer_all();
    return is_right && cached.read(0, 10) == cached.expected(0, 10);
  });
  EXPECT_TRUE(test::succeeds(child));
  cached.reader->answer_all();
  EXPECT_EQ(cached.read(0, 2 * kPage), cached.expected(0, 2 * kPage));
}

}  // namespace
}  // namespace atompack::io::fetch
