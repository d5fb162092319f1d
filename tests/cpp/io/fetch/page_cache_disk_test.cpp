#include "io/fetch/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>

#include "io/fetch/cached_file.h"
#include "io/fetch/cached_pages.h"
#include "io/file.h"

namespace atompack::io::fetch {
namespace {

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
