#include "io/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "fork.h"
#include "io/eviction.h"
#include "io/open_file.h"
#include "io/temporary_file.h"

namespace atompack::io {
namespace {

using State = Residency::State;

const uint64_t kPage = page_bytes();

std::vector<std::byte> some_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  return bytes;
}

using Runs = std::vector<std::pair<uint64_t, uint64_t>>;

Runs runs_of(const std::vector<ByteRange>& ranges, uint64_t length, uint64_t page = 4096) {
  Runs runs;
  for_each_page_run(ranges, length, page, [&](const ByteRange& run) { runs.emplace_back(run.offset, run.end()); });
  return runs;
}

TEST(PageRuns, AreWholePagesWhereRangesFollowEachOther) {
  EXPECT_EQ(runs_of({}, 100), Runs{});
  EXPECT_EQ(runs_of({{5000, 10}}, 100000), (Runs{{4096, 5010}}));
  EXPECT_EQ(runs_of({{5000, 10}, {5010, 9000}, {14010, 5}}, 100000), (Runs{{4096, 14015}}));
  EXPECT_EQ(runs_of({{5000, 10}, {50000, 10}, {6000, 10}}, 100000), (Runs{{4096, 5010}, {49152, 50010}, {4096, 6010}}));
  EXPECT_EQ(runs_of({{5000, 10}, {5001, 2}}, 100000), (Runs{{4096, 5010}}));
  EXPECT_EQ(runs_of({{70000, 10}, {80000, 10}}, 100000, 65536), (Runs{{65536, 80010}}));
}

TEST(PageRuns, EndWithTheFile) {
  EXPECT_EQ(runs_of({{5000, 1000}}, 5500), (Runs{{4096, 5500}}));
  EXPECT_EQ(runs_of({{5000, UINT64_MAX}}, 5500), (Runs{{4096, 5500}}));
  EXPECT_EQ(runs_of({{5500, 1}, {UINT64_MAX, 1}, {7, 0}}, 5500), Runs{});
}

// Of several pages: a fast disk may give one before the question is answered.
bool is_one_absent(int fd, std::initializer_list<uint64_t> pages) {
  return std::ranges::any_of(pages, [&](uint64_t page) { return !is_in_memory(fd, page * kPage); });
}

TEST(IsInMemory, FollowsTheFile) {
  const test::TemporaryFile file(some_bytes(16 * kPage));
  ATOMPACK_EVICT(file.path());
  ATOMPACK_UNTIL_ABSENT([&] {
    if (!test::evict(file.path())) return false;
    const UniqueFd fd = open_for_reading(file.path());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
    const bool is_absent = is_one_absent(fd.get(), {4, 6, 8, 10});
    std::array<std::byte, 8> into{};
    read_at(fd.get(), 3 * kPage, into, file.path());
    EXPECT_TRUE(is_in_memory(fd.get(), 3 * kPage));
    return is_absent && is_one_absent(fd.get(), {12, 13, 14, 15});
  });
}

// mincore() would say that all of it is in memory.
TEST(IsInMemory, IsRightForFilesOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const test::TemporaryFile file(some_bytes(16 * kPage));
  ::chmod(file.path().c_str(), 0444);
  ATOMPACK_EVICT(file.path());
  ATOMPACK_UNTIL_ABSENT([&] {
    if (!test::evict(file.path())) return false;
    return test::holds_in_child([&] {
      const int fd = ::open(file.path().c_str(), O_RDONLY);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
      return ::setuid(65534) == 0 && is_one_absent(fd, {4, 6, 8, 10});
    });
  });
}

TEST(Residency, IsUnknownUntilASampleIsTaken) {
  const test::TemporaryFile file(some_bytes(64 * kPage));
  const UniqueFd fd = open_for_reading(file.path());
  const Residency residency;
  EXPECT_TRUE(residency.is_due());
  EXPECT_EQ(residency.window(), 1);
  EXPECT_EQ(residency.sample(fd.get(), std::array{ByteRange{0, 10}}), State::resident);
  EXPECT_EQ(residency.window(), 0);
  int n_due = 0;
  for (int i = 0; i < 1600; ++i) n_due += residency.is_due() ? 1 : 0;
  EXPECT_GE(n_due, 25);
  EXPECT_LT(n_due, 400);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the time of a page from the disk, or of a training step
  EXPECT_TRUE(residency.is_due());
}

TEST(Residency, OneAbsentPageIsEnoughAndManyResidentOnesEndIt) {
  const test::TemporaryFile file(some_bytes(64 * kPage));
  const UniqueFd fd = open_for_reading(file.path());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  const Residency residency;
  const std::array in_memory{ByteRange{0, 10}};
  ATOMPACK_EVICT(file.path());
  ATOMPACK_UNTIL_ABSENT([&] {
    if (!test::evict(file.path())) return false;
    std::array<std::byte, 8> into{};
    read_at(fd.get(), 0, into, file.path());
    EXPECT_EQ(residency.sample(fd.get(), in_memory), State::resident);
    State state = State::resident;
    for (uint64_t page = 9; page < 20 && state == State::resident; ++page) {
      state = residency.sample(fd.get(), std::array{ByteRange{0, 10}, ByteRange{page * kPage, 1}});
    }
    return state == State::absent;
  });
  EXPECT_FALSE(residency.is_due());  // announcements take samples
  EXPECT_GT(residency.window(), 256);
  for (int i = 0; i < 31; ++i) EXPECT_EQ(residency.sample(fd.get(), in_memory), State::absent) << i;
  EXPECT_EQ(residency.sample(fd.get(), in_memory), State::resident);
}

class AnnouncedRanges : public testing::TestWithParam<Access> {};

TEST_P(AnnouncedRanges, AreReadIntoMemory) {
  const test::TemporaryFile file(some_bytes(512 * kPage));
  ATOMPACK_EVICT(file.path());
  const auto source = open_file(file.path())->bytes(512 * kPage, GetParam());
  const UniqueFd fd = open_for_reading(file.path());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  const std::array ranges{ByteRange{100 * kPage + 7, 900}, ByteRange{300 * kPage - 5, 10}};
  source->sample(ranges);
  source->announce(ranges);
  for (const uint64_t page : {100, 299, 300}) {
    const auto is_present = [&] { return test::pages_in_memory(fd.get(), file.path())[page]; };
    for (int i = 0; i < 2000 && !is_present(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(is_present()) << page;
  }
  EXPECT_FALSE(test::pages_in_memory(fd.get(), file.path())[500]);
}

INSTANTIATE_TEST_SUITE_P(Each, AnnouncedRanges, testing::Values(Access::automatic, Access::random, Access::read));

TEST(AnnouncedRanges, AreOfNoUseForSequentialReading) {
  const test::TemporaryFile file(some_bytes(64 * kPage));
  ATOMPACK_EVICT(file.path());
  const auto source = open_file(file.path())->bytes(64 * kPage, Access::sequential);
  EXPECT_EQ(source->window(), 0);
  EXPECT_FALSE(source->is_sample_due());
}

}  // namespace
}  // namespace atompack::io
