#include "formats/torch_cache/hdf5/nodes.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "formats/torch_cache/hdf5/chunk_index.h"
#include "formats/torch_cache/hdf5/hdf5_file.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::corrupt;
using test::unsupported;

constexpr uint64_t kStart = 96;  // of what follows the superblock

// A superblock of version 0, whose root group is said to be at the start of the rest.
ByteString file_of(const ByteString& rest) {
  return ByteString("\x89HDF\r\n\x1a\n")
      .zeros(5)
      .put(uint8_t{8})
      .put(uint8_t{8})
      .zeros(9)
      .put(uint64_t{0})
      .put(~uint64_t{0})
      .put(uint64_t{kStart + rest.size()})
      .put(~uint64_t{0})
      .zeros(8)
      .put(uint64_t{kStart})
      .zeros(24)
      .append(rest);
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

ByteString with_checksum(const ByteString& bytes) { return ByteString(bytes).put(lookup3(bytes.bytes())); }

ByteString new_header(const ByteString& messages) {
  return with_checksum(
      ByteString("OHDR").put(uint8_t{2}).put(uint8_t{0}).put(static_cast<uint8_t>(messages.size())).append(messages));
}

// The types and lengths of the messages.
std::vector<std::pair<int, size_t>> messages_of(const ByteString& rest, uint64_t at = 0) {
  const ByteString whole = file_of(rest);
  const Hdf5File file(whole.bytes());
  const ObjectHeader header(file, kStart + at);
  std::vector<std::pair<int, size_t>> found;
  for (const Message& message : header.messages()) {
    found.emplace_back(static_cast<int>(message.type), message.bytes.size());
  }
  return found;
}

using Messages = std::vector<std::pair<int, size_t>>;

TEST(Checksum, IsThatOfItsInventor) {
  EXPECT_EQ(lookup3({}), 0xdeadbeefU);
  EXPECT_EQ(lookup3(as_bytes("Four score and seven years ago")), 0x17770551U);
}

TEST(ObjectHeader, MessagesOfBothVersionsAreRead) {
  const ByteString data = ByteString().zeros(16);
  EXPECT_EQ(messages_of(old_header(old_message(1, data).append(old_message(12, data)))), (Messages{{1, 16}, {12, 16}}));
  EXPECT_EQ(messages_of(new_header(new_message(8, data))), (Messages{{8, 16}}));
}

TEST(ObjectHeader, ContinuationsAreFollowed) {
  const ByteString next = old_message(8, ByteString().zeros(8));
  const ByteString more = old_message(16, ByteString().put(uint64_t{kStart + 40}).put(uint64_t{next.size()}));
  EXPECT_EQ(messages_of(old_header(more).append(next)), (Messages{{8, 8}}));
  const ByteString block = with_checksum(ByteString("OCHK").append(new_message(8, ByteString().zeros(5))));
  const ByteString link = new_message(16, ByteString().put(uint64_t{kStart + 31}).put(uint64_t{block.size()}));
  EXPECT_EQ(messages_of(new_header(link).append(block)), (Messages{{8, 5}}));
  const ByteString other = with_checksum(ByteString("XXXX").append(new_message(8, ByteString().zeros(5))));
  EXPECT_EQ(corrupt([&] { messages_of(new_header(link).append(other)); }),
            "header continuation: expected the signature OCHK, got another (offset 127)");
}

TEST(ObjectHeader, ChecksumsAreChecked) {
  const ByteString header = new_header(new_message(8, ByteString().zeros(16)));
  for (size_t at = 6; at < header.size(); ++at) {
    EXPECT_THROW(messages_of(ByteString(header).patch<uint8_t>(at, 77)), CorruptFileError) << at;
  }
}

TEST(ObjectHeader, ACircleEnds) {
  const ByteString circle = old_message(16, ByteString().put(uint64_t{kStart + 16}).put(uint64_t{24}));
  EXPECT_EQ(corrupt([&] { messages_of(old_header(circle)); }), "object header: more than 64 blocks (offset 96)");
}

TEST(ObjectHeader, PlacesOutsideTheFileAreRefused) {
  const ByteString header = old_header(old_message(8, ByteString().zeros(16)));
  EXPECT_THROW(messages_of(header, header.size()), CorruptFileError);
  EXPECT_THROW(messages_of(header, ~uint64_t{0} - kStart), CorruptFileError);
  for (size_t size = 0; size < header.size(); ++size) {
    EXPECT_THROW(messages_of(ByteString(header).cut(size)), CorruptFileError) << size;
  }
  const ByteString far = old_message(16, ByteString().put(~uint64_t{0}).put(uint64_t{8}));
  EXPECT_THROW(messages_of(old_header(far)), CorruptFileError);
  EXPECT_EQ(unsupported([&] { messages_of(ByteString(header).patch<uint8_t>(0, 3)); }),
            "object header: expected version 1 or 2, got 3 (offset 96)");
}

ByteString layout_message(uint8_t version = 3, uint8_t rank = 2, uint32_t rows = 50, uint32_t bytes = 16) {
  ByteString layout{version, 2, rank};
  return layout.put(uint64_t{0}).put(rows).put(bytes).zeros(5);
}

ChunkedLayout layout_of(const ByteString& message) { return read_layout({message.bytes(), 0, "layout"}); }

TEST(Layout, ChunksOfNoBytesAreRefused) {
  const std::string message = "layout: expected chunks of at least one byte, got none (offset 11)";
  EXPECT_EQ(corrupt([] { layout_of(layout_message(3, 2, 0)); }), message);
  EXPECT_EQ(corrupt([] { layout_of(layout_message(3, 2, 50, 0)); }), message);
}

TEST(Layout, OthersAreRefused) {
  EXPECT_THROW(layout_of(layout_message(4)), UnsupportedFormatError);
  EXPECT_EQ(corrupt([] { layout_of(layout_message(3, 3)); }),
            "layout: expected chunks of one dimension, got 2 (offset 3)");
}

}  // namespace
}  // namespace atompack::torch_cache
