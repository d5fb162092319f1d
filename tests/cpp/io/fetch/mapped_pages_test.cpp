#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "io/fetch/cached_pages.h"
#include "io/fetch/group_file.h"
#include "io/unique_fd.h"

namespace atompack::io::fetch {
namespace {

using test::group_files;

// An object of two groups, all of which is stored.
class MappedPages : public testing::Test {
 protected:
  MappedPages() {
    object_.version.size = (kGroupPages + 20) * kPageBytes + 5;
    open();
    for (const uint64_t page : {uint64_t{0}, kGroupPages - 20, kGroupPages}) test::write(*cached_, object_, page, 20);
    test::write(*cached_, object_, kGroupPages + 20);
  }
  void open() {
    cached_.reset();
    cache_.emplace(folder_.path(), uint64_t{1} << 30);
    cached_ = object_.in(*cache_);
  }
  bool copies(uint64_t offset, size_t n) const {
    std::vector<std::byte> into(n);
    if (!cached_->copy(offset, into)) return false;
    const uint64_t first = offset / kPageBytes;
    const uint64_t n_pages = count_pages(std::min(offset + n + 1, object_.version.size)) - first;
    const auto expected = n == 0 ? std::vector<std::byte>() : object_.pages(first, n_pages);
    return std::equal(into.begin(), into.end(),
                      expected.begin() + static_cast<ptrdiff_t>(n == 0 ? 0 : offset % kPageBytes));
  }

  test::TemporaryFolder folder_;
  test::RemoteObject object_;
  std::optional<BlockCache> cache_;
  std::shared_ptr<const CachedObject> cached_;
};

TEST_F(MappedPages, AreCopiedInAnyPart) {
  EXPECT_TRUE(copies(0, 20 * kPageBytes));
  EXPECT_TRUE(copies(kPageBytes - 1, 2));
  EXPECT_TRUE(copies((kGroupPages - 1) * kPageBytes + 7, kPageBytes));  // in two groups
  EXPECT_TRUE(copies(object_.version.size - 1, 1));
  EXPECT_TRUE(copies(object_.version.size, 0));
  EXPECT_EQ(cache_->stats().rejected, 0U);
  std::array<std::byte, 2> beyond{};
  EXPECT_THROW(cached_->copy(object_.version.size - 1, beyond), InternalError);
}

TEST_F(MappedPages, ThatAreAnnouncedNeedNoRequest) {
  const ByteRange last{object_.version.size - 1, 100};
  EXPECT_TRUE(cached_->announce(std::array{ByteRange{0, 10 * kPageBytes}, last}).empty());
  const std::string first_group = group_files(folder_).front();
  std::filesystem::remove(first_group);
  open();
  const std::vector<ByteRange> others = cached_->announce(std::array{ByteRange{5, 10}, last});
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].offset, 5U);
}

// Nobody notices immediately, and a mapping has no way to fail but a signal.
TEST_F(MappedPages, AreAbsentInFilesThatWereEvictedOrCut) {
  EXPECT_TRUE(copies(0, 100));
  for (const bool is_cut : {false, true}) {
    for (const std::string& path : group_files(folder_)) {
      const UniqueFd fd(::open(path.c_str(), O_RDWR));
      is_cut ? std::filesystem::resize_file(path, kPageBytes) : free_all_pages(fd.get());
    }
    std::vector<std::byte> into(100);
    EXPECT_FALSE(cached_->copy(0, into));
    EXPECT_EQ(cached_->announce(std::array{ByteRange{0, 100}}).size(), 1U);
  }
}

}  // namespace
}  // namespace atompack::io::fetch
