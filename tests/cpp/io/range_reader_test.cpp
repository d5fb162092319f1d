#include "io/range_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::corrupt;

class PieceReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string bytes;
    for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i);
    file_.emplace(as_bytes(bytes));
    reader_.emplace(open_for_reading(file_->path()), 90, file_->path());
  }

  std::optional<test::TemporaryFile> file_;
  std::optional<RangeReader> reader_;
  RangeBuffer buffer_;
};

TEST_F(PieceReaderTest, ReadsPieces) {
  for (const uint64_t ahead : {0, 8, 1000}) {
    for (uint64_t at = 0; at < 90; at += 7) {
      const uint64_t n = std::min<uint64_t>(5, 90 - at);
      const Bytes piece = reader_->read(at, n, buffer_, ahead);
      ASSERT_EQ(piece.size(), n);
      for (uint64_t i = 0; i < n; ++i) EXPECT_EQ(static_cast<uint64_t>(piece[i]), at + i);
    }
  }
  EXPECT_TRUE(reader_->read(90, 0, buffer_).empty());
}

TEST_F(PieceReaderTest, ABufferIsOfTheReaderThatFilledItLast) {
  const test::TemporaryFile other(as_bytes("other file, of letters"));
  const RangeReader letters(open_for_reading(other.path()), 10, other.path());
  EXPECT_EQ(static_cast<int>(reader_->read(3, 4, buffer_)[0]), 3);
  EXPECT_EQ(as_text(letters.read(3, 4, buffer_)), "er f");
  EXPECT_EQ(static_cast<int>(reader_->read(3, 4, buffer_)[0]), 3);
}

TEST_F(PieceReaderTest, NoticesThatTheFileWasCut) {
  reader_->check_not_shrunk();
  ASSERT_EQ(::truncate(file_->path().c_str(), 50), 0);
  const std::string cut = file_->path() + ": the file shrank while it was open: expected ";
  EXPECT_EQ(corrupt([&] { reader_->check_not_shrunk(); }), cut + "90 bytes, got 50");
  EXPECT_EQ(reader_->read(40, 10, buffer_, 100).size(), 10U);
  EXPECT_EQ(corrupt([&] { reader_->read(45, 10, buffer_); }), cut + "55 bytes, got 50");
  std::vector<std::byte> into(20);
  EXPECT_EQ(corrupt([&] { reader_->read(60, into); }), cut + "80 bytes, got 60");
}

}  // namespace
}  // namespace atompack::io
