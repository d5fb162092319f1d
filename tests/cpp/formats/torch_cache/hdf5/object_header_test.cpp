#include "formats/torch_cache/hdf5/object_header.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::corrupt;
using test::unsupported;

ByteString old_layout(uint8_t version = 3, uint8_t rank = 2, uint32_t rows = 50, uint32_t bytes = 16) {
  ByteString layout{version, 2, rank};
  return layout.put(uint64_t{0}).put(rows).put(bytes).zeros(5);
}

ByteString new_layout(uint16_t rows = 50, uint8_t width = 2) {
  return ByteString{4, 2, 0, 2}.put(width).put(rows).put(uint16_t{16}).put(uint8_t{1});
}

ByteString old_message(uint16_t type, const ByteString& data) {
  return ByteString().put(type).put(static_cast<uint16_t>(data.size())).zeros(4).append(data);
}

ByteString old_header(const ByteString& messages) {
  return ByteString{1, 0}
      .put(uint16_t{1})
      .put(uint32_t{1})
      .put(static_cast<uint32_t>(messages.size()))
      .zeros(4)
      .append(messages);
}

ByteString new_message(uint8_t type, const ByteString& data) {
  return ByteString{type}.put(static_cast<uint16_t>(data.size())).put(uint8_t{0}).append(data);
}

ByteString new_header(const ByteString& messages) {
  return ByteString("OHDR")
      .put(uint8_t{2})
      .put(uint8_t{0})
      .put(static_cast<uint8_t>(messages.size()))
      .append(messages)
      .zeros(8);
}

void check(const ByteString& file, uint64_t at = 0) { check_object_header(file.bytes(), 0, at); }

TEST(ObjectHeader, ChunksOfSomeBytesPass) {
  EXPECT_NO_THROW(check(old_header(old_message(8, old_layout()))));
  EXPECT_NO_THROW(check(new_header(new_message(8, new_layout()))));
  EXPECT_NO_THROW(check(old_header(old_message(1, ByteString().zeros(16)))));
}

TEST(ObjectHeader, ChunksOfNoBytesAreRefused) {
  const std::string message = "layout: expected chunks of at least one byte, got none (offset 16)";
  EXPECT_EQ(corrupt([] { check(old_header(old_message(8, old_layout(3, 2, 0)))); }), message);
  EXPECT_EQ(corrupt([] { check(old_header(old_message(8, old_layout(3, 2, 50, 0)))); }), message);
  EXPECT_EQ(corrupt([] { check(new_header(new_message(8, new_layout(0)))); }),
            "layout: expected chunks of at least one byte, got none (offset 7)");
}

TEST(ObjectHeader, OtherLayoutsAreRefused) {
  EXPECT_EQ(unsupported([] { check(old_header(old_message(8, old_layout(2)))); }),
            "layout: expected version 3 or 4, got 2 (offset 16)");
  EXPECT_EQ(corrupt([] { check(old_header(old_message(8, old_layout(3, 3)))); }),
            "layout: expected chunks of one dimension, got 2 (offset 16)");
  EXPECT_EQ(corrupt([] { check(new_header(new_message(8, new_layout(50, 9)))); }),
            "layout: expected a width up to 8, got 9 (offset 7)");
}

TEST(ObjectHeader, ContinuationsAreFollowed) {
  const ByteString bad = old_message(8, old_layout(3, 2, 0));
  const ByteString more = old_message(16, ByteString().put(uint64_t{40}).put(uint64_t{bad.size()}));
  EXPECT_EQ(corrupt([&] { check(old_header(more).append(bad)); }),
            "layout: expected chunks of at least one byte, got none (offset 40)");
  const ByteString block = ByteString("OCHK").append(new_message(8, new_layout(0))).zeros(4);
  const ByteString next = new_message(16, ByteString().put(uint64_t{35}).put(uint64_t{block.size()}));
  EXPECT_EQ(corrupt([&] { check(new_header(next).append(block)); }),
            "layout: expected chunks of at least one byte, got none (offset 39)");
  EXPECT_EQ(corrupt([&] { check(new_header(next).append(ByteString("XXXX").append(block))); }),
            "header continuation: expected the signature OCHK, got another (offset 35)");
}

TEST(ObjectHeader, ACircleEnds) {
  const ByteString circle = old_message(16, ByteString().put(uint64_t{16}).put(uint64_t{24}));
  EXPECT_EQ(corrupt([&] { check(old_header(circle)); }), "object header: more than 64 blocks (offset 0)");
}

TEST(ObjectHeader, PlacesOutsideTheFileAreRefused) {
  const ByteString header = old_header(old_message(8, old_layout()));
  EXPECT_THROW(check(header, header.size()), CorruptFileError);
  EXPECT_THROW(check(header, ~uint64_t{0}), CorruptFileError);
  for (size_t size = 0; size < header.size(); ++size) {
    EXPECT_THROW(check(ByteString(header).cut(size)), CorruptFileError) << size;
  }
  const ByteString far = old_message(16, ByteString().put(~uint64_t{0}).put(uint64_t{8}));
  EXPECT_EQ(corrupt([&] { check(old_header(far)); }),
            "header continuation: expected an address in the file, got 18446744073709551615 (offset 16)");
  const ByteString other = ByteString(header).patch<uint8_t>(0, 3);
  EXPECT_EQ(unsupported([&] { check(other); }), "object header: expected version 1 or 2, got 3 (offset 0)");
}

}  // namespace
}  // namespace atompack::torch_cache
