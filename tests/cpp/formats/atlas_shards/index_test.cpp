#include "formats/atlas_shards/index.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "formats/atlas_shards/npy_bytes.h"
#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

using test::corrupt;
using test::npy_of;
using test::npy_with_header;
using test::owned;

BlockIndex index_of(const test::ByteString& file, uint64_t n_blocks, uint64_t data_bytes = 1000) {
  return BlockIndex(owned(file.bytes()), n_blocks, data_bytes);
}

template <typename T>
test::ByteString offsets(std::string_view type, std::initializer_list<T> values) {
  return npy_of(type, values.size()).put_all(values);
}

TEST(AtlasShardsIndex, AllWidths) {
  const auto ends = [](const BlockIndex& index) { return std::pair(index.range(0).end, index.range(1).end); };
  const std::pair<uint64_t, uint64_t> expected(7, 200);
  EXPECT_EQ(ends(index_of(offsets<uint8_t>("|u1", {0, 7, 200}), 2)), expected);
  EXPECT_EQ(ends(index_of(offsets<uint16_t>("<u2", {0, 7, 200}), 2)), expected);
  EXPECT_EQ(ends(index_of(offsets<uint32_t>("<u4", {0, 7, 200}), 2)), expected);
  EXPECT_EQ(ends(index_of(offsets<int64_t>("<i8", {0, 7, 200}), 2)), expected);
  EXPECT_EQ(ends(index_of(offsets<uint16_t>(">u2", {0, 0x0700, 0xC800}), 2)), expected);
  EXPECT_EQ(ends(index_of(offsets<uint32_t>(">i4", {0, 0x07000000, 0xC8000000}), 2)), expected);
}

// The difference of narrow numbers must not wrap.
TEST(AtlasShardsIndex, WidensBeforeItSubtracts) {
  const BlockIndex index = index_of(offsets<uint8_t>("|u1", {0, 255}), 1);
  EXPECT_EQ(index.range(0).size(), 255u);
  EXPECT_EQ(index.n_blocks(), 1u);
}

TEST(AtlasShardsIndex, OffsetsThatContradict) {
  EXPECT_EQ(corrupt([] { index_of(offsets<uint8_t>("|u1", {0, 9, 8}), 2); }),
            "index: expected offset 2 to be at least 9, got 8");
  EXPECT_EQ(corrupt([] { index_of(offsets<uint8_t>("|u1", {0, 9}), 1, 8); }),
            "index: expected blocks inside the 8 bytes of data, got an end at 9");
  EXPECT_EQ(corrupt([] { index_of(offsets<int8_t>("|i1", {0, -1}), 1); }),
            "index: expected no negative offset, got one at 1");
  EXPECT_EQ(corrupt([] { index_of(offsets<int64_t>("<i8", {0, -1}), 1, UINT64_MAX); }),
            "index: expected no negative offset, got one at 1");
  EXPECT_EQ(corrupt([] { index_of(offsets<uint8_t>("|u1", {0, 9}), 2); }), "index: expected 3 offsets, got 2");
}

// Neither memory nor bounds follow what a header claims.
TEST(AtlasShardsIndex, SizesThatAreClaimed) {
  EXPECT_EQ(corrupt([] { index_of(npy_of("<u8", UINT64_MAX), UINT64_MAX - 1); }),
            "index bytes: 18446744073709551615 x 8 overflows 64 bits");
  EXPECT_EQ(corrupt([] { index_of(npy_of("<u8", 1), UINT64_MAX); }),
            "index offsets: 18446744073709551615 + 1 overflows 64 bits");
  EXPECT_EQ(corrupt([] { index_of(npy_of("<u8", uint64_t{1} << 40), (uint64_t{1} << 40) - 1); }),
            "index offsets: expected 8796093022208 bytes, got 0 (offset 82)");
  EXPECT_EQ(BlockIndex::max_file_bytes(uint64_t{1} << 40), uint64_t{1} << 32);
  EXPECT_EQ(BlockIndex::max_file_bytes(1), 65536u + 16);
}

TEST(AtlasShardsIndex, HeadersOfOtherWritersAreRead) {
  EXPECT_EQ(parse_npy_header(npy_with_header("{\"shape\":(3),'fortran_order':True,'descr':\"<u4\"}").bytes()).count,
            3u);
  test::ByteString second("\x93NUMPY");
  second.put(uint8_t{2}).put(uint8_t{0});
  const std::string_view text = "{'descr': '<u2', 'fortran_order': False, 'shape': (5,)}";
  second.put(static_cast<uint32_t>(text.size())).append(as_bytes(text));
  EXPECT_EQ(parse_npy_header(second.bytes()).data_begin, 12 + text.size());
}

TEST(AtlasShardsIndex, HeadersThatAreRefused) {
  const auto message = [](std::string_view header) {
    return corrupt([&] { parse_npy_header(npy_with_header(header).bytes()); });
  };
  const auto of = [](std::string_view type, std::string_view shape) {
    return cat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, "}");
  };
  for (const char* type : {"<f8", "|b1", "<u3", "<u16", "u4", "|u2", "=u4", "", "|O"}) {
    EXPECT_TRUE(message(of(type, "(1,)")).starts_with("npy element type: expected integers, got ")) << type;
  }
  EXPECT_EQ(message(of("<u2", "(1, 2)")), "npy shape: expected 1 dimension, got 2");
  EXPECT_EQ(message(of("<u2", "()")), "npy shape: expected 1 dimension, got 0");
  for (const char* header : {"", "{", "{}", "{'descr'", "{'descr': '<u2'}", "{'descr': [('a', '<u2')]}", "[]"}) {
    EXPECT_TRUE(message(header).starts_with("npy header: expected ")) << message(header);
  }
  EXPECT_TRUE(message(of("<u2", "(99999999999999999999,)")).starts_with("npy header: expected a size")) << "overflow";
  EXPECT_TRUE(message(of("<u2", "(-1,)")).starts_with("npy header: expected a size"));
  EXPECT_TRUE(message(of("<u2", "(1,)") + "x").starts_with("npy header: expected nothing after the dict"));
  EXPECT_TRUE(message("{'shape': (1,), 'shape': (2,)}").starts_with("npy header: expected each of descr"));
}

TEST(AtlasShardsIndex, FilesThatAreNoNpy) {
  test::ByteString other("\x93NUMPY\x04");
  other.put(uint8_t{0});
  EXPECT_EQ(test::unsupported([&] { parse_npy_header(other.bytes()); }),
            "npy version: expected 1.0, 2.0 or 3.0, got 4.0");
  EXPECT_EQ(corrupt([] { parse_npy_header(as_bytes("PK\x03\x04..")); }),
            "npy header: expected its magic number, got other bytes");
  EXPECT_EQ(corrupt([] { parse_npy_header({}); }), "npy magic: expected 6 bytes, got 0 (offset 0)");
}

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
