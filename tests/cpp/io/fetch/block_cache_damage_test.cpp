#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "io/fetch/cached_pages.h"
#include "io/file.h"

namespace atompack::io::fetch {
namespace {

using test::count_good;
using test::group_files;
using test::Read;
using test::read;
using test::RemoteObject;
using test::write;

constexpr uint64_t kStored = 16;
constexpr uint64_t kFirstPageAt = 33 * kPageBytes;  // FORMAT.md

class DamagedBlockCache : public testing::Test {
 protected:
  DamagedBlockCache() { fill(); }

  void fill() {
    open();
    write(*cached_, object_, 0, kStored);
    path_ = group_files(folder_).front();
  }
  // As a new process does.
  void open() {
    cache_.emplace(folder_.path(), 1 << 30);
    cached_ = object_.in(*cache_);
  }
  void close() {
    cached_.reset();
    cache_.reset();
  }

  void overwrite(uint64_t offset, Bytes bytes) const {
    write_at(UniqueFd(::open(path_.c_str(), O_WRONLY)).get(), offset, bytes, path_);
  }
  void flip(uint64_t offset, int bit) const {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR));
    std::array<std::byte, 1> byte{};
    read_at(fd.get(), offset, byte, path_);
    byte[0] ^= static_cast<std::byte>(1 << bit);
    write_at(fd.get(), offset, byte, path_);
  }

  // All that was lost can be stored again.
  void expect_repairable(const std::string& what) {
    write(*cached_, object_, 0, kStored);
    EXPECT_EQ(count_good(*cached_, object_), kStored) << what;
    open();
    EXPECT_EQ(count_good(*cached_, object_), kStored) << what;
  }

  test::TemporaryFolder folder_;
  RemoteObject object_;
  std::optional<BlockCache> cache_;
  std::shared_ptr<const CachedObject> cached_;
  std::string path_;
};

TEST_F(DamagedBlockCache, AFlippedBitLosesItsPageAlone) {
  const uint64_t size = kFirstPageAt + kStored * kPageBytes;
  uint64_t lost = 0;
  for (uint64_t offset = 0; offset < size; offset += offset < 64 + 8 * kStored ? 1 : 397) {
    flip(offset, static_cast<int>(offset % 8));
    open();
    const uint64_t good = count_good(*cached_, object_);  // none of them wrong
    const bool is_header = offset < 64;
    const bool is_entry = offset >= 64 && offset < 64 + 8 * kStored;
    const bool is_page = offset >= kFirstPageAt;
    ASSERT_EQ(good, is_header ? 0 : kStored - (is_entry || is_page ? 1 : 0)) << offset;
    if (good == kStored) continue;
    lost += kStored - good;
    // A flipped mark is an absent page, a wrong checksum is counted.
    const bool is_mark = is_entry && offset % 8 >= 4;
    EXPECT_EQ(cache_->stats().rejected, is_header || is_mark ? 0U : 1U) << offset;
    expect_repairable(cat(offset));
  }
  EXPECT_GT(lost, 70 * kStored);
}

TEST_F(DamagedBlockCache, ADamagedPageIsAbsentAfterwards) {
  flip(kFirstPageAt + 3 * kPageBytes, 0);
  open();
  EXPECT_TRUE(cached_->has(3));
  EXPECT_EQ(read(*cached_, object_, 3), Read::absent);
  EXPECT_FALSE(cached_->has(3));
  EXPECT_EQ(read(*cached_, object_, 3), Read::absent);
  EXPECT_EQ(cache_->stats().rejected, 1U);
  open();
  EXPECT_FALSE(cached_->has(3));
}

TEST_F(DamagedBlockCache, DamageAfterTheFirstReadIsFound) {
  EXPECT_EQ(count_good(*cached_, object_), kStored);
  flip(kFirstPageAt + 5 * kPageBytes + 100, 3);
  EXPECT_EQ(read(*cached_, object_, 5), Read::absent);
  EXPECT_EQ(count_good(*cached_, object_), kStored - 1);
}

TEST_F(DamagedBlockCache, ATruncatedFile) {
  const uint64_t full = std::filesystem::file_size(path_);
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{59}, uint64_t{64}, uint64_t{64 + 8 * 7 + 3}, kPageBytes, kFirstPageAt,
        kFirstPageAt + 1, kFirstPageAt + 10 * kPageBytes, kFirstPageAt + 11 * kPageBytes - 1, full - 1}) {
    const uint64_t whole = size < kFirstPageAt ? 0 : std::min(kStored, (size - kFirstPageAt) / kPageBytes);
    close();
    std::filesystem::resize_file(path_, size);
    open();
    EXPECT_EQ(count_good(*cached_, object_), whole) << size;
    expect_repairable(cat("of size ", size));
  }
}

TEST_F(DamagedBlockCache, AFileThatIsTruncatedWhileOpen) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{64 + 8 * 7}, kFirstPageAt + 10 * kPageBytes + 5}) {
    const uint64_t whole = size < kFirstPageAt ? 0 : 10;
    EXPECT_EQ(count_good(*cached_, object_), kStored);
    std::filesystem::resize_file(path_, size);
    EXPECT_EQ(count_good(*cached_, object_), whole) << size;
    // Grown again, with zeros in between.
    write(*cached_, object_, kStored - 1);
    EXPECT_EQ(count_good(*cached_, object_), whole + 1) << size;
    expect_repairable(cat("truncated to ", size));
  }
}

TEST_F(DamagedBlockCache, AFileThatIsTruncatedAndGrownBetweenReads) {
  EXPECT_EQ(count_good(*cached_, object_), kStored);
  std::filesystem::resize_file(path_, kFirstPageAt + kPageBytes);
  write(*cached_, object_, kStored - 1);  // page 5 now consists of zeros
  EXPECT_EQ(read(*cached_, object_, 5), Read::absent);
  EXPECT_EQ(count_good(*cached_, object_), 2U);
}

TEST_F(DamagedBlockCache, GarbageIsReplaced) {
  for (const size_t size : {1, 100, 5000, 1'000'000}) {
    close();
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << std::string(size, '\xA5');
    open();
    EXPECT_EQ(count_good(*cached_, object_), 0U);
    expect_repairable(cat(size, " bytes of garbage"));
  }
}

TEST_F(DamagedBlockCache, AFileOfAnotherGroupIsReplaced) {
  RemoteObject other = object_;
  other.url += "2";
  write(*other.in(*cache_), other, 0);
  std::string others;
  for (const std::string& path : group_files(folder_)) others = path == path_ ? others : path;
  close();
  std::filesystem::copy_file(path_, others, std::filesystem::copy_options::overwrite_existing);
  open();
  EXPECT_EQ(count_good(*other.in(*cache_), other), 0U);
  write(*other.in(*cache_), other, 1);
  EXPECT_EQ(count_good(*other.in(*cache_), other), 1U);
  EXPECT_EQ(count_good(*cached_, object_), kStored);
}

TEST_F(DamagedBlockCache, APageOfAnotherPlaceIsRejected) {
  std::vector<std::byte> page(kPageBytes + 8);
  const UniqueFd fd(::open(path_.c_str(), O_RDWR));
  const std::span bytes(page);
  read_at(fd.get(), kFirstPageAt + 3 * kPageBytes, bytes.first(kPageBytes), path_);
  read_at(fd.get(), 64 + 8 * 3, bytes.last(8), path_);
  overwrite(kFirstPageAt + 4 * kPageBytes, bytes.first(kPageBytes));
  overwrite(64 + 8 * 4, bytes.last(8));
  open();
  EXPECT_EQ(read(*cached_, object_, 4), Read::absent);
  EXPECT_EQ(cache_->stats().rejected, 1U);
  EXPECT_EQ(count_good(*cached_, object_), kStored - 1);
}

TEST_F(DamagedBlockCache, OtherThingsOfTheSameNameAreLeftAlone) {
  const auto outside = folder_ / "outside";
  const std::vector<std::function<void()>> kinds = {
      [&] { std::filesystem::create_directory(path_); },
      [&] { ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0); },
      [&] {
        std::ofstream(outside) << "mine";
        std::filesystem::create_symlink(outside, path_);
      },
  };
  for (const auto& make : kinds) {
    close();
    std::filesystem::remove(path_);
    make();
    open();
    write(*cached_, object_, 0, kStored);
    EXPECT_EQ(count_good(*cached_, object_), 0U);
    EXPECT_FALSE(cached_->has(0));
    EXPECT_EQ(cache_->stats().skipped, kStored);
    EXPECT_FALSE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path_)));
    // Other groups are not affected.
    RemoteObject other = object_;
    other.url += "2";
    write(*other.in(*cache_), other, 0);
    EXPECT_EQ(count_good(*other.in(*cache_), other), 1U);
  }
  EXPECT_EQ(std::filesystem::file_size(outside), 4U);
}

// A process that only writes sees no damaged pages, and looks at its files now and then.
TEST_F(DamagedBlockCache, AFileThatLosesItsNameOrHeaderIsOpenedAnew) {
  RemoteObject other = object_;
  other.url += "2";
  write(*other.in(*cache_), other, 0);
  for (const std::string& path : group_files(folder_)) {
    if (path != path_) std::filesystem::remove(path);
  }
  std::filesystem::resize_file(path_, 0);
  // As another process sees it.
  const auto is_stored = [&](const RemoteObject& object) {
    return read(*object.in(BlockCache(folder_.path(), 1 << 30)), object, 1) == Read::good;
  };
  for (int i = 0; i < 1000 && !(is_stored(object_) && is_stored(other)); ++i) {
    write(*cached_, object_, 1);
    write(*other.in(*cache_), other, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(is_stored(object_));
  EXPECT_TRUE(is_stored(other));
}

TEST_F(DamagedBlockCache, AFileThatIsRemovedWhileOpen) {
  EXPECT_EQ(count_good(*cached_, object_), kStored);
  std::filesystem::remove(path_);
  EXPECT_EQ(count_good(*cached_, object_), kStored);  // it is open
  open();
  EXPECT_EQ(count_good(*cached_, object_), 0U);
  expect_repairable("removed");
}

}  // namespace
}  // namespace atompack::io::fetch
