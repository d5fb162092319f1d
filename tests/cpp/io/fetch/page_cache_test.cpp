#include "io/fetch/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>

#include "io/fetch/cached_file.h"
#include "io/fetch/cached_pages.h"
#include "io/fetch/page.h"
#include "io/file.h"

namespace atompack::io::fetch {
namespace {

using test::BusyReader;
using test::CachedFile;
using test::HeldFile;
using test::HeldReader;
using test::io_error;
using test::kPage;
using test::random_bytes;

std::vector<uint64_t> flat(const std::vector<ByteRange>& ranges) {
  std::vector<uint64_t> pages;
  for (const ByteRange& range : ranges) {
    EXPECT_EQ(range.offset % kPage, 0U);
    pages.push_back(range.offset / kPage);
    pages.push_back(count_pages(range.length));
  }
  return pages;
}

using Flat = std::vector<uint64_t>;  // first page and number of pages of each request

TEST(PageCache, EveryByteIsRightInAnyThread) {
  CachedFile<BusyReader> cached(150 * kPage + 17, 24);
  const uint64_t size = cached.reader->object().size();
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 400; ++i) {
        std::vector<ByteRange> ranges;
        for (int k = 0; k < 3; ++k) {
          const uint64_t offset = random() % size;
          ranges.push_back({offset, random() % std::min<uint64_t>(size - offset, i % 7 == 0 ? 9 * kPage : 1000) + 1});
        }
        if (i % 3 > 0) cached.announce(ranges);
        for (const ByteRange& range : ranges) {
          ASSERT_EQ(cached.read(range.offset, range.length), cached.expected(range.offset, range.length));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cached.cache.stats().held_bytes, 24 * kPage);
  EXPECT_EQ(cached.cache.stats().requests, cached.reader->ranges().size());
}

TEST(PageCache, EachPageIsRequestedOnceHoweverManyWait) {
  HeldFile cached(10 * kPage, 100);
  std::vector<std::future<std::vector<std::byte>>> results;
  for (int i = 0; i < 8; ++i) results.push_back(cached.start_reading(kPage + 100, 5000));
  cached.reader->wait_for(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cached.reader->answer_all();
  for (auto& result : results) EXPECT_EQ(result.get(), cached.expected(kPage + 100, 5000));
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{1, 2}));
  EXPECT_EQ(cached.read(2 * kPage, 10), cached.expected(2 * kPage, 10));
  EXPECT_EQ(cached.cache.stats().requests, 1U);
  EXPECT_EQ(cached.cache.stats().fetched_bytes, 2 * kPage);
}

TEST(PageCache, AnnouncedRangesAreOnTheirWayBeforeAReadWaits) {
  HeldFile cached(1000 * kPage, 500);
  cached.announce({{100 * kPage, 10}, {10 * kPage + 4000, 200}, {500 * kPage, kPage}, {10 * kPage, 1}});
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{10, 2, 100, 1, 500, 1}));
  cached.reader->answer(2);
  EXPECT_EQ(cached.read(500 * kPage, 5), cached.expected(500 * kPage, 5));
  cached.announce({{100 * kPage, 10}, {500 * kPage, 1}});  // on its way, and here
  EXPECT_EQ(cached.reader->n_requests(), 3U);
  cached.reader->answer_all();
}

TEST(PageCache, RangesOutsideOfTheFileAreNotAnnounced) {
  HeldFile cached(2 * kPage + 1, 100);
  cached.announce({{3 * kPage, 5}, {UINT64_MAX - 5, 20}, {0, 0}});
  EXPECT_EQ(cached.reader->n_requests(), 0U);
  cached.announce({{2 * kPage, UINT64_MAX}});
  ASSERT_EQ(cached.reader->n_requests(), 1U);
  EXPECT_EQ(cached.reader->ranges()[0].length, 1U);
  cached.reader->answer_all();
}

TEST(PageCache, NearPagesAreOneRequestUpToALimit) {
  HeldFile cached(4000 * kPage, 4000);
  cached.announce({{0, 1}, {5 * kPage, 1}, {11 * kPage, 1}});  // gaps of 4 and 5 pages
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{0, 6, 11, 1}));
  cached.reader->answer_all();
  EXPECT_EQ(cached.read(3 * kPage, 9), cached.expected(3 * kPage, 9));  // of the gap
  cached.announce({{1000 * kPage, 600 * kPage}});
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{0, 6, 11, 1, 1000, 256, 1256, 256, 1512, 88}));
  cached.announce({{999 * kPage, 1}, {1600 * kPage, 1}, {998 * kPage, 1}, {1602 * kPage, 1}});
  EXPECT_EQ(flat(cached.reader->ranges()).back(), 3U);  // joined to one another, not across pages on their way
  EXPECT_EQ(cached.reader->n_requests(), 7U);
  cached.reader->answer_all();
}

TEST(PageCache, AGapWithAKnownPageIsNotFetchedAgain) {
  HeldFile cached(100 * kPage, 100);
  cached.cache.put(cached.file, 2 * kPage, cached.expected(2 * kPage, kPage));
  cached.announce({{0, 1}, {4 * kPage, 1}});
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{0, 1, 4, 1}));
  cached.reader->answer_all();
}

TEST(PageCache, AnnouncesFillHalfOfTheMemoryAtMost) {
  HeldFile cached(1000 * kPage, 20);
  cached.announce({{0, 50 * kPage}});
  EXPECT_EQ(flat(cached.reader->ranges()), (Flat{0, 10}));
  cached.announce({{100 * kPage, 1}});
  EXPECT_EQ(cached.reader->n_requests(), 1U);
  EXPECT_EQ(cached.cache.stats().held_bytes, 10 * kPage);
  auto other = cached.start_reading(200 * kPage, 5);  // reads have room
  cached.reader->wait_for(2);
  cached.reader->answer_all();
  EXPECT_EQ(other.get(), cached.expected(200 * kPage, 5));
  cached.announce({{100 * kPage, 1}});
  EXPECT_EQ(cached.reader->n_requests(), 3U);
  cached.reader->answer_all();
}

TEST(PageCache, TheLeastRecentlyUsedPagesGo) {
  HeldFile cached(100 * kPage, 4);
  for (uint64_t page = 0; page < 4; ++page) cached.read_answered(page * kPage, 1);
  cached.read(0, 1);
  cached.read_answered(10 * kPage, 1);
  EXPECT_EQ(cached.cache.stats().held_bytes, 4 * kPage);
  const size_t n = cached.reader->n_requests();
  cached.read(0, 1);
  EXPECT_EQ(cached.reader->n_requests(), n);
  cached.read_answered(kPage, 1);
  EXPECT_EQ(cached.reader->n_requests(), n + 1);
}

TEST(PageCache, AnAnnouncedPageThatIsHereStays) {
  HeldFile cached(100 * kPage, 4);
  for (uint64_t page = 0; page < 4; ++page) cached.read_answered(page * kPage, 1);
  cached.announce({{0, 1}, {50 * kPage, 1}, {60 * kPage, 1}});
  cached.reader->answer_all();
  const size_t n = cached.reader->n_requests();
  EXPECT_EQ(cached.read(0, 9), cached.expected(0, 9));
  EXPECT_EQ(cached.reader->n_requests(), n);
}

TEST(PageCache, ReadsLargerThanTheMemoryAreWhole) {
  CachedFile<BusyReader> cached(300 * kPage + 5, 8);
  const uint64_t size = cached.reader->object().size();
  EXPECT_EQ(cached.read(0, size), cached.expected(0, size));
  EXPECT_LE(cached.cache.stats().held_bytes, 8 * kPage);
  uint64_t pages = 0;
  for (const ByteRange& range : cached.reader->ranges()) pages += count_pages(range.length);
  EXPECT_EQ(pages, 301U);
}

TEST(PageCache, ALargeReadDoesNotHoldAllOfIt) {
  HeldFile cached(300 * kPage, 8);
  auto result = cached.start_reading(0, 300 * kPage);
  cached.reader->wait_for(1);
  uint64_t most = 0;
  while (result.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    most = std::max(most, cached.cache.stats().held_bytes);
    cached.reader->answer_all();
  }
  EXPECT_EQ(result.get(), cached.expected(0, 300 * kPage));
  EXPECT_LE(most, 16 * kPage);
}

TEST(PageCache, PagesInUseAreNotEvicted) {
  HeldFile cached(100 * kPage, 1);
  auto slow = cached.start_reading(0, kPage + 1);  // waits for two pages in turn, in a cache for one
  cached.reader->wait_for(1);
  for (uint64_t page = 50; page < 60; ++page) {
    auto other = cached.start_reading(page * kPage, 7);
    cached.reader->wait_for(page - 48);
    cached.reader->answer(page - 49);
    EXPECT_EQ(other.get(), cached.expected(page * kPage, 7));
  }
  while (slow.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) cached.reader->answer_all();
  EXPECT_EQ(slow.get(), cached.expected(0, kPage + 1));
  EXPECT_EQ(cached.cache.stats().held_bytes, kPage);
}

TEST(PageCache, KnowsWhatIsHereOrOnItsWay) {
  HeldFile cached(10 * kPage, 10);
  const auto has = [&](uint64_t offset, uint64_t n) { return cached.cache.has(cached.file, {offset, n}); };
  EXPECT_FALSE(has(0, 1));
  EXPECT_TRUE(has(0, 0));
  cached.announce({{kPage, 2 * kPage}});
  EXPECT_TRUE(has(kPage, 2 * kPage));
  EXPECT_FALSE(has(kPage, 2 * kPage + 1));
  cached.reader->answer(0, io_error(EIO));
  EXPECT_FALSE(has(kPage, 1));
  EXPECT_EQ(cached.read_answered(kPage, 1), cached.expected(kPage, 1));
  EXPECT_TRUE(has(kPage, 1));
  EXPECT_EQ(cached.reader->n_requests(), 2U);
}

TEST(PageCache, BytesBeyondTheEndAreABug) {
  HeldFile cached(kPage + 1, 10);
  EXPECT_THROW(cached.read(kPage, 2), InternalError);
  EXPECT_THROW(cached.read(kPage + 2, 0), InternalError);
  EXPECT_THROW(cached.read(UINT64_MAX, 2), InternalError);
  EXPECT_EQ(cached.reader->n_requests(), 0U);
}

TEST(PageCache, TheLastPageMayBeShort) {
  HeldFile cached(kPage + 100, 10);
  EXPECT_EQ(cached.read_answered(10, kPage + 90), cached.expected(10, kPage + 90));
  EXPECT_EQ(cached.cache.stats().fetched_bytes, kPage + 100);
}

TEST(PageCache, AFileMayBeEmpty) {
  HeldFile cached(0, 10);
  cached.announce({{0, 10}});
  cached.cache.put(cached.file, 0, {});
  EXPECT_EQ(cached.read(0, 0).size(), 0U);
  EXPECT_EQ(cached.reader->n_requests(), 0U);
}

TEST(PageCache, KeepsWholePagesThatAreKnown) {
  HeldFile cached(3 * kPage + 100, 10);
  cached.cache.put(cached.file, 10, cached.expected(10, 2 * kPage));  // page 1 alone
  EXPECT_EQ(cached.cache.stats().held_bytes, kPage);
  EXPECT_EQ(cached.read(kPage, kPage), cached.expected(kPage, kPage));
  cached.cache.put(cached.file, 3 * kPage, cached.expected(3 * kPage, 100));
  EXPECT_EQ(cached.read(3 * kPage, 100), cached.expected(3 * kPage, 100));
  EXPECT_EQ(cached.reader->n_requests(), 0U);
}

TEST(PageCache, FilesDoNotMix) {
  PageCache cache(100 * kPage);
  std::vector<std::shared_ptr<const HeldReader>> readers;
  std::vector<PagedFile> files;
  for (uint64_t i = 0; i < 3; ++i) {
    readers.push_back(std::make_shared<const HeldReader>(random_bytes(kPage, i)));
    files.push_back(cache.add(kPage, readers.back(), nullptr));
    cache.put(files.back(), 0, readers.back()->object());
  }
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(test::read(cache, files[i], 0, kPage), readers[i]->object());
}

// Pages that a thread of the parent waits for will never arrive in the child.

using test::BusyReader;
using test::kPage;
using test::part;
using test::RemoteObject;

class PageCacheOnDisk : public testing::Test {
 protected:
  PageCacheOnDisk() { object_.version.size = 50 * kPage + 33; }

  // A cache of pages in memory over that on disk, as in a new process; returns what it read from.
  struct Run {
    Run(const std::string& folder, const RemoteObject& object)
        : disk(folder, 1 << 30),
          reader(std::make_shared<const BusyReader>(object.pages(0, count_pages(object.version.size)))),
          cache(100 * kPage),
          file(cache.add(object.version.size, reader, disk.object(object.url, object.version))) {}
    BlockCache disk;
    std::shared_ptr<const BusyReader> reader;
    PageCache cache;
    PagedFile file;
  };

  test::TemporaryFolder folder_;
  RemoteObject object_;
};

TEST_F(PageCacheOnDisk, PagesThatWereReadComeFromDiskInTheNextRun) {
  const uint64_t size = object_.version.size;
  {
    Run first(folder_.path(), object_);
    first.cache.announce(first.file, std::array{ByteRange{30 * kPage, kPage}});
    EXPECT_EQ(test::read(first.cache, first.file, 5 * kPage, 2 * kPage),
              part(first.reader->object(), 5 * kPage, 2 * kPage));
    EXPECT_EQ(test::read(first.cache, first.file, 50 * kPage, 33), part(first.reader->object(), 50 * kPage, 33));
    EXPECT_EQ(first.cache.stats().pages_from_disk, 0U);
    EXPECT_EQ(first.disk.stats().written, 3U);
    test::read(first.cache, first.file, 5 * kPage, 2 * kPage);
    EXPECT_EQ(first.disk.stats().written, 3U);
  }
  Run second(folder_.path(), object_);
  second.cache.announce(second.file, std::array{ByteRange{5 * kPage, 10}, ByteRange{50 * kPage, 33}});
  EXPECT_EQ(test::read(second.cache, second.file, 5 * kPage, 2 * kPage),
            part(second.reader->object(), 5 * kPage, 2 * kPage));
  EXPECT_EQ(test::read(second.cache, second.file, 50 * kPage, 33), part(second.reader->object(), 50 * kPage, 33));
  EXPECT_EQ(second.cache.stats().requests, 0U);
  EXPECT_EQ(second.cache.stats().pages_from_disk, 3U);
  EXPECT_EQ(second.disk.stats().written, 0U);
  EXPECT_EQ(test::read(second.cache, second.file, 0, size), second.reader->object());
  EXPECT_EQ(second.cache.stats().fetched_bytes, size - 2 * kPage - 33);
}

TEST_F(PageCacheOnDisk, DamagedPagesAreFetchedAgain) {
  {
    Run first(folder_.path(), object_);
    test::read(first.cache, first.file, 0, 10 * kPage);
  }
  const std::string path = test::group_files(folder_).front();
  constexpr uint64_t kFirstPageAt = 33 * kPage;  // FORMAT.md
  write_at(UniqueFd(::open(path.c_str(), O_WRONLY)).get(), kFirstPageAt + 3 * kPage + 7, as_bytes("damage"), path);
  for (const uint64_t n_requests : {1, 0}) {  // and mended by that
    Run run(folder_.path(), object_);
    EXPECT_EQ(test::read(run.cache, run.file, 0, 10 * kPage), part(run.reader->object(), 0, 10 * kPage));
    EXPECT_EQ(run.cache.stats().requests, n_requests);
    EXPECT_EQ(run.cache.stats().pages_from_disk, 10 - n_requests);
  }
}

TEST_F(PageCacheOnDisk, PagesFromDiskObeyTheLimit) {
  {
    Run first(folder_.path(), object_);
    test::read(first.cache, first.file, 0, object_.version.size);
  }
  Run second(folder_.path(), object_);
  PageCache small(4 * kPage);
  const PagedFile file = small.add(object_.version.size, second.reader, second.file.disk);
  EXPECT_EQ(test::read(small, file, 0, object_.version.size), second.reader->object());
  EXPECT_LE(small.stats().held_bytes, 4 * kPage);
  small.announce(file, std::array{ByteRange{0, 50 * kPage}});
  EXPECT_LE(small.stats().held_bytes, 4 * kPage);
  EXPECT_EQ(small.stats().requests, 0U);
}

}  // namespace
}  // namespace atompack::io::fetch
