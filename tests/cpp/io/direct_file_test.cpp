#include "io/direct_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <random>
#include <thread>

#include "io/fetch/cached_pages.h"
#include "io/fetch/fake_reader.h"
#include "io/fetch/uring/uring_loop.h"
#include "io/forbidden_call.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::random_bytes;
using test::TemporaryFile;

constexpr const char* kHint = "; use access=\"random\" instead";

// Calls `run` with the first `length` bytes of a file, or checks the error where io_uring is not to be had.
template <typename Run>
void with_direct(const TemporaryFile& file, uint64_t length, const Run& run) {
  const auto opened = open_file(file.path());
  if (fetch::is_uring_available()) return run(*opened->bytes(length, Access::direct));
  const std::string message = test::message_of<IoError>([&] { opened->bytes(length, Access::direct); });
  EXPECT_TRUE(message.starts_with(file.path() + ": access=\"direct\": io_uring is not available")) << message;
  EXPECT_TRUE(message.ends_with(kHint)) << message;
}

TEST(DirectFile, HasTheBytesOfTheFile) {
  const auto bytes = random_bytes(1'000'003);
  const TemporaryFile file(bytes);
  with_direct(file, 999'999, [&](const ByteSource& source) {
    EXPECT_EQ(source.path(), file.path());
    EXPECT_EQ(source.length(), 999'999U);
    EXPECT_FALSE(source.is_mapped());
    EXPECT_EQ(source.window(), 768);
    EXPECT_FALSE(source.is_sample_due());
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        RangeBuffer buffer;
        for (int i = 0; i < 200; ++i) {
          std::array<ByteRange, 20> ranges;
          for (ByteRange& range : ranges) {
            range.offset = random() % 999'999;
            range.length = std::min<uint64_t>(random() % 9000, 999'999 - range.offset);
          }
          source.announce(ranges);
          for (const ByteRange& range : ranges) {
            ASSERT_TRUE(std::ranges::equal(source.bytes(range.offset, range.length, buffer),
                                           Bytes(bytes).subspan(range.offset, range.length)));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(direct_stats().requests, 0U);
    const uint64_t n_before = direct_stats().requests;
    std::vector<std::byte> whole(999'999);
    source.announce(std::array{ByteRange{0, 999'999}});  // long
    source.copy(0, whole);
    EXPECT_TRUE(std::ranges::equal(whole, Bytes(bytes).first(999'999)));
    EXPECT_EQ(direct_stats().requests, n_before);
  });
  EXPECT_EQ(direct_stats().requests, 0U);
}

TEST(DirectFile, MayBeEmptyOrReadBeforeItsUse) {
  const TemporaryFile empty({});
  with_direct(empty, 0, [](const ByteSource& source) { source.check_not_shrunk(); });
  const auto bytes = random_bytes(100'000);
  const TemporaryFile file(bytes);
  with_direct(file, 100'000, [&](const ByteSource&) {
    const auto populated = open_file(file.path())->bytes(100'000, Access::direct, true);
    EXPECT_GE(direct_stats().fetched_bytes, 100'000U);
    std::vector<std::byte> whole(100'000);
    populated->copy(0, whole);
    EXPECT_EQ(whole, bytes);
    EXPECT_EQ(direct_stats().fetched_bytes, 100'000U);
  });
}

TEST(DirectFile, ReadsTheFileThatWasOpened) {
  const auto bytes = random_bytes(100'000);
  const TemporaryFile file(bytes);
  const auto opened = open_file(file.path());
  with_direct(file, 100'000, [&](const ByteSource&) {
    file.replace(random_bytes(100'000, 2));
    std::vector<std::byte> whole(100'000);
    const auto source = opened->bytes(100'000, Access::direct);
    for (const bool is_announced : {false, true}) {
      if (is_announced) source->announce(std::array{ByteRange{0, 100'000}});
      source->copy(0, whole);
      EXPECT_EQ(whole, bytes);
    }
    EXPECT_EQ(direct_stats().fetched_bytes, 100'000U);
  });
}

TEST(DirectFile, ATruncatedFileIsCorrupt) {
  const auto bytes = random_bytes(100'000);
  const TemporaryFile file(bytes);
  with_direct(file, 100'000, [&](const ByteSource& source) {
    RangeBuffer buffer;
    source.bytes(0, 10, buffer);
    file.resize(50'000);
    const std::string start = file.path() + ": the file shrank while it was open: expected ";
    EXPECT_EQ(test::corrupt([&] { source.check_not_shrunk(); }), start + "100000 bytes, got 50000");
    EXPECT_EQ(test::corrupt([&] { source.bytes(49'990, 20, buffer); }), start + "50010 bytes, got 50000");
    source.announce(std::array{ByteRange{49'980, 30}, ByteRange{60'000, 20}});
    EXPECT_EQ(test::corrupt([&] { source.bytes(49'990, 20, buffer); }), start + "50010 bytes, got 50000");
    EXPECT_TRUE(std::ranges::equal(source.bytes(49'980, 20, buffer), Bytes(bytes).subspan(49'980, 20)));
    EXPECT_EQ(test::corrupt([&] { source.bytes(60'000, 20, buffer); }), start + "60020 bytes, got 60000");
  });
}

TEST(DirectFile, SharesItsMemoryWithOtherFiles) {
  const auto bytes = random_bytes(40 << 20);
  const TemporaryFile first(bytes), second(bytes);
  with_direct(first, bytes.size(), [&](const ByteSource& one) {
    with_direct(second, bytes.size(), [&](const ByteSource& other) {
      std::vector<std::byte> whole(bytes.size());
      for (const ByteSource* source : {&one, &other}) {
        for (uint64_t at = 0; at < bytes.size(); at += 100 << 10) {
          const std::span<std::byte> part =
              std::span(whole).subspan(at, std::min<size_t>(100 << 10, bytes.size() - at));
          source->announce(std::array{ByteRange{at, part.size()}});
          source->copy(at, part);
        }
        EXPECT_TRUE(whole == bytes);
        EXPECT_GE(direct_stats().fetched_bytes, bytes.size());
      }
      EXPECT_EQ(direct_stats().held_bytes, uint64_t{64} << 20);
    });
  });
}

TEST(DirectFile, ForbiddenCallsAreAnErrorWithAHint) {
  const TemporaryFile file(random_bytes(10));
  EXPECT_TRUE(test::succeeds(test::start_child([&] {
    if (!test::forbid_call(SYS_io_uring_setup, ENOSYS)) return false;
    const std::string message = test::message_of<IoError>([&] { open_file(file.path())->bytes(10, Access::direct); });
    return message.starts_with(file.path() + ": access=\"direct\": io_uring is not available here (") &&
           message.ends_with(kHint);
  })));
}

}  // namespace
}  // namespace atompack::io
