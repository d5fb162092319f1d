#include "io/open_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::corrupt;

class FileRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string bytes;
    for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i);
    file_.emplace(as_bytes(bytes));
    reader_.emplace(open_file(file_->path()), 90);
  }

  std::optional<test::TemporaryFile> file_;
  std::optional<FileRanges> reader_;
  RangeBuffer buffer_;
};

TEST_F(FileRangesTest, ReadsRanges) {
  for (const uint64_t ahead : {0, 8, 1000}) {
    for (uint64_t at = 0; at < 90; at += 7) {
      const uint64_t n = std::min<uint64_t>(5, 90 - at);
      const Bytes range = reader_->bytes(at, n, buffer_, ahead);
      ASSERT_EQ(range.size(), n);
      for (uint64_t i = 0; i < n; ++i) EXPECT_EQ(static_cast<uint64_t>(range[i]), at + i);
    }
  }
  EXPECT_TRUE(reader_->bytes(90, 0, buffer_).empty());
}

TEST_F(FileRangesTest, ABufferBelongsToTheSourceThatFilledItLast) {
  const test::TemporaryFile other(as_bytes("other file, of letters"));
  const FileRanges letters(open_file(other.path()), 10);
  EXPECT_EQ(static_cast<int>(reader_->bytes(3, 4, buffer_)[0]), 3);
  EXPECT_EQ(as_text(letters.bytes(3, 4, buffer_)), "er f");
  EXPECT_EQ(static_cast<int>(reader_->bytes(3, 4, buffer_)[0]), 3);
}

TEST_F(FileRangesTest, NoticesThatTheFileWasCut) {
  reader_->check_not_shrunk();
  ASSERT_EQ(::truncate(file_->path().c_str(), 50), 0);
  const std::string cut = file_->path() + ": the file shrank while it was open: expected ";
  EXPECT_EQ(corrupt([&] { reader_->check_not_shrunk(); }), cut + "90 bytes, got 50");
  EXPECT_EQ(reader_->bytes(40, 10, buffer_, 100).size(), 10U);
  EXPECT_EQ(corrupt([&] { reader_->bytes(45, 10, buffer_); }), cut + "55 bytes, got 50");
  std::vector<std::byte> into(20);
  EXPECT_EQ(corrupt([&] { reader_->copy(60, into); }), cut + "80 bytes, got 60");
}

TEST(ByteSource, EveryKindHasTheSameBytes) {
  std::string text(10000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i % 251);
  const test::TemporaryFile file(as_bytes(text));
  for (const Access access : {Access::automatic, Access::random, Access::sequential, Access::read}) {
    const auto source = open_file(file.path())->bytes(text.size(), access);
    EXPECT_EQ(source->is_mapped(), access != Access::read);
    RangeBuffer buffer;
    for (const auto& [offset, n] : {std::pair{0, 10000}, {17, 1}, {9999, 1}, {10000, 0}, {4095, 4098}}) {
      source->prefetch(offset, n);
      EXPECT_EQ(as_text(source->bytes(offset, n, buffer)), text.substr(offset, n));
      std::vector<std::byte> copy(n);
      source->copy(offset, copy);
      EXPECT_EQ(as_text(Bytes(copy)), text.substr(offset, n));
    }
  }
  EXPECT_EQ(as_text(MemoryBytes(as_bytes(text)).whole()), text);
}

TEST(ByteSource, AMappingNeedsNoBuffer) {
  const test::TemporaryFile file(as_bytes("abcdef"));
  const auto source = open_file(file.path())->bytes(6, Access::automatic);
  const auto no_buffer = []() -> RangeBuffer& { throw InternalError("a mapping was copied"); };
  EXPECT_EQ(source->bytes(2, 3, no_buffer).data(), source->whole().data() + 2);
}

}  // namespace
}  // namespace atompack::io
