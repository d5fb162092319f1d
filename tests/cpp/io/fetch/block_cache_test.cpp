#include "io/fetch/block_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "io/fetch/cached_pages.h"
#include "io/unique_fd.h"
#include "message_of.h"

namespace atompack::io::fetch {
namespace {

using test::kMiB;
using test::Read;
using test::read;
using test::RemoteObject;
using test::write;

constexpr uint64_t kPlenty = 1 << 30;

class BlockCacheTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  BlockCache cache_{folder_.path(), kPlenty};
  RemoteObject object_;
};

TEST_F(BlockCacheTest, ReadsWhatWasWritten) {
  const auto cached = object_.in(cache_);
  EXPECT_EQ(read(*cached, object_, 3), Read::absent);
  write(*cached, object_, 3);
  EXPECT_EQ(read(*cached, object_, 3), Read::good);
  EXPECT_EQ(read(*cached, object_, 3), Read::good);
  EXPECT_EQ(read(*cached, object_, 2), Read::absent);
  EXPECT_EQ(read(*cached, object_, 4), Read::absent);
  const BlockCacheStats stats = cache_.stats();
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 3U);
  EXPECT_EQ(stats.written, 1U);
  EXPECT_EQ(stats.skipped + stats.rejected + stats.evicted_bytes, 0U);
  EXPECT_EQ(stats.stopped, "");
}

TEST_F(BlockCacheTest, OtherCachesOfTheFolderReadItToo) {
  write(*object_.in(cache_), object_, 0, 5);
  const BlockCache later(folder_.path(), kPlenty);
  EXPECT_EQ(count_good(*object_.in(later), object_), 5U);
  write(*object_.in(later), object_, 50);
  EXPECT_EQ(read(*object_.in(cache_), object_, 50), Read::good);
}

TEST_F(BlockCacheTest, TheLastPageMayBeShort) {
  for (const uint64_t size : {uint64_t{1}, kPageBytes - 1, kPageBytes, kPageBytes + 1, kGroupPages * kPageBytes + 5}) {
    object_.version.size = size;
    const auto cached = object_.in(cache_);
    const uint64_t last = cached->n_pages() - 1;
    ASSERT_EQ(last, (size - 1) / kPageBytes);
    write(*cached, object_, last);
    EXPECT_EQ(read(*cached, object_, last), Read::good) << size;
    EXPECT_EQ(read(*object_.in(BlockCache(folder_.path(), kPlenty)), object_, last), Read::good) << size;
  }
}

TEST_F(BlockCacheTest, AnEmptyObjectHasNoPages) {
  object_.version.size = 0;
  const auto cached = object_.in(cache_);
  EXPECT_EQ(cached->n_pages(), 0U);
  cached->write(0, {});
  EXPECT_TRUE(cached->find({}).empty());
  EXPECT_TRUE(test::group_files(folder_).empty());
}

TEST_F(BlockCacheTest, AnotherVersionHasItsOwnPages) {
  write(*object_.in(cache_), object_, 0, 100);
  RemoteObject changed = object_;
  changed.version.etag = "\"2\"";
  EXPECT_EQ(count_good(*changed.in(cache_), changed), 0U);
  RemoteObject other = object_;
  other.url += "2";
  EXPECT_EQ(count_good(*other.in(cache_), other), 0U);
  write(*changed.in(cache_), changed, 7);
  EXPECT_EQ(read(*changed.in(cache_), changed, 7), Read::good);
  EXPECT_EQ(count_good(*object_.in(cache_), object_), 100U);
}

TEST_F(BlockCacheTest, WithoutAVersionNothingIsCached) {
  EXPECT_EQ(cache_.object("s3://bucket/key", {.size = 10, .etag = "", .modified = ""}), nullptr);
}

TEST_F(BlockCacheTest, RunsMayCrossGroups) {
  object_.version.size = (2 * kGroupPages + 10) * kPageBytes - 100;
  const auto cached = object_.in(cache_);
  write(*cached, object_, kGroupPages - 2, kGroupPages + 12);
  EXPECT_EQ(cache_.stats().written, kGroupPages + 12);
  EXPECT_EQ(test::group_files(folder_).size(), 3U);
  for (const uint64_t page :
       {kGroupPages - 2, kGroupPages - 1, kGroupPages, 2 * kGroupPages - 1, 2 * kGroupPages, 2 * kGroupPages + 9}) {
    EXPECT_EQ(read(*cached, object_, page), Read::good) << page;
  }
  EXPECT_EQ(read(*cached, object_, kGroupPages - 3), Read::absent);
  EXPECT_TRUE(cached->has(kGroupPages));
  EXPECT_FALSE(cached->has(0));
}

TEST_F(BlockCacheTest, FindsPages) {
  object_.version.size = 3 * kGroupPages * kPageBytes;
  const auto cached = object_.in(cache_);
  const std::vector<uint64_t> stored = {0, 5, 6, kGroupPages - 1, kGroupPages, 2 * kGroupPages + 100};
  for (const uint64_t page : stored) write(*cached, object_, page);
  EXPECT_EQ(read(*cached, object_, 5), Read::good);  // its checksum is known, the others are not
  const auto expect_found = [&](const std::vector<uint64_t>& pages) {
    const std::vector<bool> found = cached->find(pages);
    ASSERT_EQ(found.size(), pages.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      EXPECT_EQ(found[i], std::ranges::find(stored, pages[i]) != stored.end()) << pages[i];
    }
  };
  std::vector<uint64_t> all(3 * kGroupPages);
  std::iota(all.begin(), all.end(), 0);
  expect_found(all);
  expect_found({});
  expect_found({5});
  expect_found({4, 5, 6, 7, kGroupPages - 1, kGroupPages, kGroupPages + 1, stored.back(), stored.back() + 1});
  expect_found({stored.back(), 6, 5, kGroupPages, 5, 5, 0, 1});  // in any order
}

TEST_F(BlockCacheTest, ReadsManyPagesInAnyOrder) {
  object_.version.size = 3 * kGroupPages * kPageBytes;
  const auto cached = object_.in(cache_);
  write(*cached, object_, 3, 100);
  write(*cached, object_, kGroupPages + 1);
  const auto expect_read = [&](const CachedObject& from) {
    const std::vector<uint64_t> pages = {kGroupPages + 1, 3, 2, 102, 103, 50, kGroupPages, 2 * kGroupPages};
    std::vector<std::byte> bytes(pages.size() * kPageBytes);
    std::vector<std::byte*> into(pages.size());
    for (size_t i = 0; i < pages.size(); ++i) into[i] = bytes.data() + i * kPageBytes;
    const std::vector<bool> expected = {true, true, false, true, false, true, false, false};
    EXPECT_EQ(from.read(pages, into), expected);
    for (size_t i = 0; i < pages.size(); ++i) {
      if (!expected[i]) continue;
      EXPECT_TRUE(std::ranges::equal(Bytes(into[i], kPageBytes), object_.page(pages[i]))) << pages[i];
    }
  };
  expect_read(*cached);
  for (const std::string& path : test::group_files(folder_)) {  // from the disk, where there is one
    const UniqueFd fd(::open(path.c_str(), O_RDONLY));
    ASSERT_EQ(::fsync(fd.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  const BlockCache other(folder_.path(), kPlenty);
  expect_read(*object_.in(other));
}

TEST_F(BlockCacheTest, PagesBeyondTheEndAreErrors) {
  const auto cached = object_.in(cache_);
  std::vector<std::byte> page(kPageBytes);
  const std::vector<uint64_t> beyond = {100};
  const auto error = [](const auto& run) { return test::message_of<InternalError>(run); };
  constexpr auto kBeyond = "pages beyond the end of an object";
  std::byte* const memory = page.data();
  EXPECT_EQ(error([&] { cached->read(beyond, {&memory, 1}); }), kBeyond);
  EXPECT_EQ(error([&] { cached->write(100, page); }), kBeyond);
  EXPECT_EQ(error([&] { cached->write(~uint64_t{0}, page); }), kBeyond);
  EXPECT_EQ(error([&] { cached->find(beyond); }), kBeyond);
  EXPECT_EQ(error([&] { cached->write(0, std::span(page).first(9)); }), "size of pages to be written");
}

TEST_F(BlockCacheTest, AddressesAreNotWrittenAnywhere) {
  object_.url = "https://user:password@server.example/bucket/molecules?X-Amz-Signature=abcdef";
  object_.version.etag = "\"etag-of-it\"";
  write(*object_.in(cache_), object_, 0, 20);
  for (const std::string& name : folder_.names()) {
    std::ifstream in(folder_ / name, std::ios::binary);
    const std::string content = name + std::string(std::istreambuf_iterator<char>(in), {});
    for (const char* const part : {"user", "password", "server.example", "molecules", "Amz", "abcdef", "etag-of-it"}) {
      EXPECT_EQ(content.find(part), std::string::npos) << name << ": " << part;
    }
  }
}

TEST_F(BlockCacheTest, FoldersAreForThisUserAlone) {
  const std::string path = folder_ / "a/b/cache/";
  const BlockCache cache(path, kPlenty);
  write(*object_.in(cache), object_, 0);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << entry.path();
  }
}

TEST_F(BlockCacheTest, AFileIsNoFolder) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(test::message_of<IoError>([&] { BlockCache(folder_ / "file", kPlenty); }),
            folder_ / "file" + ": Not a directory");
  EXPECT_EQ(test::message_of<IoError>([&] { BlockCache(folder_ / "file/cache", kPlenty); }),
            folder_ / "file/cache" + ": Not a directory");
}

TEST_F(BlockCacheTest, AFolderThatWasRemovedIsMadeAgain) {
  const auto cached = object_.in(cache_);
  write(*cached, object_, 0);
  std::filesystem::remove_all(folder_.path());
  object_.url += "2";
  const auto other = object_.in(cache_);
  for (int i = 0; i < 2; ++i) write(*other, object_, 1);
  EXPECT_EQ(read(*other, object_, 1), Read::good);
  EXPECT_EQ(test::group_files(folder_).size(), 1U);
}

TEST_F(BlockCacheTest, UsageIsThatOfTheFolder) {
  EXPECT_EQ(BlockCache::usage(folder_.path()).files, 0U);
  EXPECT_EQ(BlockCache::usage(folder_.path()).oldest_use, std::nullopt);
  const int64_t before = ::time(nullptr) - 1;
  object_.version.size = 2 * kGroupPages * kPageBytes;
  write(*object_.in(cache_), object_, 0, 10);
  write(*object_.in(cache_), object_, kGroupPages, 10);
  object_.url += "2";
  write(*object_.in(cache_), object_, 0, 10);
  std::ofstream(folder_ / "foreign.pages") << std::string(100'000, 'x');
  std::filesystem::create_directory(folder_ / (std::string(64, '0') + "-0.pages"));
  const CacheUsage usage = cache_.usage();
  EXPECT_EQ(usage.files, 3U);
  EXPECT_EQ(usage.objects, 2U);
  EXPECT_EQ(usage.pages, 30U);
  EXPECT_GE(usage.bytes, 30 * kPageBytes);
  EXPECT_LE(usage.bytes, 60 * kPageBytes);
  ASSERT_TRUE(usage.oldest_use && usage.newest_use);
  EXPECT_GE(*usage.oldest_use, before);
  EXPECT_LE(*usage.oldest_use, *usage.newest_use);
  EXPECT_LE(*usage.newest_use, ::time(nullptr) + 1);
  EXPECT_EQ(test::message_of<IoError>([&] { BlockCache::usage(folder_ / "none"); }),
            folder_ / "none" + ": No such file or directory");
}

TEST_F(BlockCacheTest, ObjectsOutliveTheCache) {
  std::shared_ptr<const CachedObject> cached;
  {
    const BlockCache cache(folder_.path(), kPlenty);
    cached = object_.in(cache);
  }
  write(*cached, object_, 9);
  EXPECT_EQ(read(*cached, object_, 9), Read::good);
}

TEST_F(BlockCacheTest, FewFilesAreOpen) {
  const BlockCache cache(folder_.path(), kPlenty, {.max_open_files = 3});
  object_.version.size = 20 * kGroupPages * kPageBytes;
  const auto cached = object_.in(cache);
  const auto count_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = count_files();
  for (uint64_t group = 0; group < 20; ++group) write(*cached, object_, group * kGroupPages);
  EXPECT_EQ(count_files(), before + 3);
  for (uint64_t group = 0; group < 20; ++group) EXPECT_EQ(read(*cached, object_, group * kGroupPages), Read::good);
  EXPECT_EQ(count_files(), before + 3);
}

}  // namespace
}  // namespace atompack::io::fetch
