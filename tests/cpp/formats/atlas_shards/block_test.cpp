#include "formats/atlas_shards/index.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

using test::ByteString;
using test::corrupt;

// A frame of one block: header descriptor, content size, block of the type with that size, its bytes.
ByteString frame_of(uint8_t descriptor, uint64_t content, uint32_t type, uint32_t size, std::string_view bytes) {
  ByteString frame;
  frame.put(uint32_t{0xFD2FB528}).put(descriptor);
  descriptor == 0xE0 ? frame.put(content) : frame.put(static_cast<uint8_t>(content));
  const uint32_t header = 1 | type << 1 | size << 3;
  frame.put(static_cast<uint16_t>(header)).put(static_cast<uint8_t>(header >> 16));
  return frame.append(as_bytes(bytes));
}

constexpr std::string_view kList = "\x80\x04](K\x01K\x02\x65.";

std::string read(const ByteString& stored, uint64_t most = 1000) {
  return std::string(as_text(decompress_block(stored.bytes(), nullptr, most).bytes()));
}

TEST(AtlasShardsBlock, OneFrame) {
  const ByteString frame = frame_of(0x20, kList.size(), 0, kList.size(), kList);
  EXPECT_EQ(read(frame), kList);
  EXPECT_EQ(read(ByteString(frame).append(as_bytes("more"))), kList) << "what follows is ignored";
  EXPECT_EQ(read(ByteString(frame).append(frame)), kList);
}

TEST(AtlasShardsBlock, SizesAreHeldAgainstTheFrame) {
  const auto huge = frame_of(0xE0, uint64_t{1} << 40, 0, kList.size(), kList);
  EXPECT_EQ(corrupt([&] { read(huge, UINT64_MAX); }),
            "zstd content size: expected at most 10 bytes, got 1099511627776");
  EXPECT_EQ(corrupt([&] { read(frame_of(0x20, 10, 0, 10, kList), 8); }),
            "zstd content size: expected at most 8 bytes, got 10");
  EXPECT_EQ(corrupt([&] { read(frame_of(0x00, 0x20, 0, 10, kList)); }), "zstd content size: expected one, got none");
}

TEST(AtlasShardsBlock, BytesThatAreNoFrame) {
  EXPECT_EQ(corrupt([] { read({}); }), "zstd magic: expected 4 bytes, got 0 (offset 0)");
  ByteString skippable;
  skippable.put(uint32_t{0x184D2A50}).put(uint32_t{0});
  EXPECT_EQ(corrupt([&] { read(skippable); }), "zstd: expected a frame, got other bytes (offset 0)");
  EXPECT_EQ(corrupt([] { read(frame_of(0x20, 10, 0, 10, kList.substr(1))); }),
            "zstd block: expected 10 bytes, got 9 (offset 9)");
  EXPECT_EQ(corrupt([] { read(frame_of(0x20, 9, 2, 9, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")); }).substr(0, 5),
            "zstd:");
}

TEST(AtlasShardsBlock, Dictionaries) {
  const codec::ZstdDictionary raw(as_bytes("some bytes that frames may refer to"));
  const ByteString frame = frame_of(0x20, kList.size(), 0, kList.size(), kList);
  EXPECT_EQ(as_text(decompress_block(frame.bytes(), &raw, 1000).bytes()), kList) << "it need not be used";
  const codec::ZstdDictionary empty((Bytes()));
  EXPECT_EQ(as_text(decompress_block(frame.bytes(), &empty, 1000).bytes()), kList);
  EXPECT_EQ(corrupt([] { codec::ZstdDictionary(as_bytes("\x37\xA4\x30\xEC broken")); }),
            "zstd dictionary: expected a complete one, got 11 bytes");
  // Descriptor 0x21: an id of one byte stands before the content size.
  ByteString named;
  named.put(uint32_t{0xFD2FB528}).put(uint8_t{0x21}).put(uint8_t{7}).put(uint8_t{10}).put(uint16_t{10 << 3 | 1});
  named.put(uint8_t{0}).append(as_bytes(kList));
  EXPECT_EQ(corrupt([&] { decompress_block(named.bytes(), &raw, 1000); }), "zstd: Dictionary mismatch");
  EXPECT_EQ(corrupt([&] { decompress_block(named.bytes(), nullptr, 1000); }), "zstd: Dictionary mismatch");
}

ParsedBlock parsed(std::string_view pickle, uint64_t n_examples) {
  pickle::Machine machine;
  Block block(pickle.size());
  store(block.writable().data(), as_bytes(pickle));
  ParsedBlock made(std::move(block), n_examples, machine);
  machine.run(as_bytes("\x80\x04]."));  // what was made is its own
  return made;
}

TEST(AtlasShardsBlock, ExamplesOfABlock) {
  EXPECT_EQ(parsed(kList, 2).examples().size(), 2u);
  EXPECT_EQ(parsed(kList, 1).examples().size(), 2u) << "further ones are ignored";
  EXPECT_EQ(parsed("\x80\x04K\x01\x85.", 1).examples().kind(), Kind::tuple);
  EXPECT_EQ(parsed("\x80\x04K\x01\x85.", 1).example(0).integer(), 1);
  EXPECT_GT(parsed(kList, 2).bytes(), kList.size());
  EXPECT_EQ(corrupt([] { parsed(kList, 3); }), "block: expected 3 examples, got 2");
  EXPECT_EQ(corrupt([] { parsed("\x80\x04K\x01.", 1); }),
            cat("block: expected a list of examples, got ", name_of(Kind::integer)));
}

}  // namespace
}  // namespace atompack::atlas_shards
