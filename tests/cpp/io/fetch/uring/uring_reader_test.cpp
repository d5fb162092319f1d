#include "io/fetch/uring/uring_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "io/fetch/answers.h"
#include "io/fetch/cached_pages.h"
#include "io/fetch/fake_reader.h"
#include "io/file.h"
#include "io/forbidden_call.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io::fetch {
namespace {

using test::Answers;
using test::random_bytes;
using test::TemporaryFile;

// Calls `run`, or where io_uring is not to be had checks that its absence is an error.
template <typename Run>
void with_uring(const Run& run) {
  if (is_uring_available()) return run(std::make_shared<const UringLoop>());
  EXPECT_THROW(UringLoop(), IoError);
}

UringReader reader_of(const TemporaryFile& file, std::shared_ptr<const UringLoop> loop) {
  return UringReader(open_for_reading(file.path()).get(), file.path(), std::move(loop));
}

TEST(UringReader, ReadsAnyRangeOfAnySizeIntoAnyMemory) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    std::mt19937_64 random(1);
    for (const uint64_t size : {1, 511, 512, 4095, 4096, 4097, 10'000, (3 << 20) + 5}) {
      const auto bytes = random_bytes(size);
      const TemporaryFile file(bytes);
      const UringReader reader = reader_of(file, loop);
      EXPECT_EQ(reader.max_in_flight(), 256U);
      for (int i = 0; i < 100; ++i) {
        const uint64_t offset = random() % size;
        std::vector<std::byte> into(i == 0 ? size - offset : random() % std::min<uint64_t>(size - offset, 20'000) + 1);
        RangeRequest request{offset, {}};
        std::span<std::byte> rest = into;
        while (!rest.empty()) {
          const size_t n = std::min<size_t>(rest.size(), random() % 5000 + 1);
          request.into.push_back(rest.first(n));
          rest = rest.subspan(n);
        }
        Answers answers;
        reader.read(std::move(request), answers.done());
        answers.wait();
        ASSERT_TRUE(std::ranges::equal(into, Bytes(bytes).subspan(offset, into.size()))) << size << ' ' << offset;
      }
    }
  });
}

TEST(UringReader, ReadsPagesInPlace) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    constexpr uint64_t kPages = 2000;  // more than one call of the kernel takes
    const auto bytes = random_bytes(kPages * kPageBytes - 4000);
    const TemporaryFile file(bytes);
    const UringReader reader = reader_of(file, loop);
    const AlignedMemory memory = make_aligned(kPages * kPageBytes);
    RangeRequest request{0, {}};
    for (uint64_t page = 0; page < kPages; ++page) {
      request.into.emplace_back(memory.get() + page * kPageBytes, bytes_of_page(bytes.size(), page));
    }
    Answers answers;
    reader.read(std::move(request), answers.done());
    answers.wait();
    EXPECT_TRUE(std::ranges::equal(Bytes(memory.get(), bytes.size()), bytes));
  });
}

TEST(UringReader, TakesMoreRequestsThanItHasInFlight) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    constexpr uint64_t kPages = 5000;
    const auto bytes = random_bytes(kPages * kPageBytes);
    const TemporaryFile file(bytes);
    const UringReader reader = reader_of(file, loop);
    const AlignedMemory memory = make_aligned(kPages * kPageBytes);
    Answers answers;
    for (uint64_t i = 0; i < kPages; ++i) {
      const uint64_t at = i * 1777 % kPages * kPageBytes;
      reader.read({at, {{memory.get() + at, kPageBytes}}}, answers.done());
    }
    answers.wait();
    EXPECT_TRUE(std::ranges::equal(Bytes(memory.get(), bytes.size()), bytes));
  });
}

TEST(UringReader, NothingIsReadAtOnce) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    const TemporaryFile file({});
    Answers answers;
    reader_of(file, loop).read({0, {}}, answers.done());
    answers.wait();
  });
}

TEST(UringReader, ATruncatedFileIsNoData) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    const TemporaryFile file(random_bytes(100'000));
    const UringReader reader = reader_of(file, loop);
    for (const uint64_t size : {99'999, 98'304, 50'000, 4096, 512, 0}) {
      file.resize(size);
      std::vector<std::byte> into(100'000);
      Answers answers;
      reader.read({0, {into}}, answers.done());
      try {
        answers.wait();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ENODATA) << size;
        EXPECT_EQ(error.path(), file.path());
      }
    }
  });
}

TEST(UringReader, MayBeDestroyedBeforeItsAnswersCome) {
  with_uring([](std::shared_ptr<const UringLoop> loop) {
    const auto bytes = random_bytes(1'000'000);
    const TemporaryFile file(bytes);
    std::vector<std::byte> into(1'000'000);
    Answers answers;
    reader_of(file, std::move(loop)).read({0, {into}}, answers.done());
    answers.wait();
    EXPECT_EQ(into, bytes);
  });
}

// A race detector allows no threads in a fork of a process that has some.
#ifndef __SANITIZE_THREAD__
TEST(UringReader, AForkReadsByItself) {
  with_uring([](std::shared_ptr<const UringLoop> loop) {
    const auto bytes = random_bytes(1'000'000);
    const TemporaryFile file(bytes);
    const auto read_all = [&](const UringReader& reader) {
      std::vector<std::byte> into(bytes.size());
      Answers answers;
      reader.read({0, {into}}, answers.done());
      answers.wait();
      return into == bytes;
    };
    std::optional<UringReader> reader(reader_of(file, std::move(loop)));
    EXPECT_TRUE(read_all(*reader));
    EXPECT_TRUE(test::succeeds(test::start_child([&] {
      const bool is_right = read_all(*reader);
      reader.reset();
      return is_right;
    })));
    EXPECT_TRUE(test::succeeds(test::start_child([&] {
      reader.reset();  // without any use
      return true;
    })));
    EXPECT_TRUE(read_all(*reader));
  });
}
#endif

TEST(UringReader, ForbiddenCallsAreAnError) {
  EXPECT_TRUE(test::succeeds(test::start_child([] {
    if (!test::forbid_call(SYS_io_uring_setup, EPERM) || is_uring_available()) return false;
    const std::string message = test::message_of<IoError>([] { UringLoop(); });
    return message == "io_uring: not available here (Operation not permitted)" ||
           message == "io_uring: not available here (the package was built without liburing)";
  })));
}

TEST(UringReader, AFileSystemMayHaveNoDirectReads) {
  with_uring([](const std::shared_ptr<const UringLoop>& loop) {
    const TemporaryFile file(random_bytes(10));
    EXPECT_TRUE(test::succeeds(test::start_child([&] {
      if (!test::forbid_call(SYS_openat, EINVAL, O_DIRECT)) return false;
      const std::string message = test::message_of<IoError>([&] { reader_of(file, loop); });
      return message == file.path() +
                            ": access=\"direct\": the file system has no direct reads (O_DIRECT: Invalid argument); "
                            "use access=\"random\" instead";
    })));
  });
}

}  // namespace
}  // namespace atompack::io::fetch
