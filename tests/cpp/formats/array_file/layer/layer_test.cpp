#include "formats/array_file/layer/layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "codec/checksums.h"
#include "formats/array_file/archive_bytes.h"
#include "io/faulty_file.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using Key = std::tuple<uint64_t, uint32_t, uint64_t>;

std::shared_ptr<const DecodedBytes> block_of(size_t size, int value) {
  auto block = std::make_shared<DecodedBytes>(size);
  std::ranges::fill(block->writable(), static_cast<std::byte>(value));
  return block;
}

TEST(BlockCache, TellsLayersBlocksAndStretchesApart) {
  BlockCache cache(1000);
  const std::vector<Key> keys{{1, 1, kWholeBlock}, {1, 1, 0}, {1, 1, 4}, {1, 2, 0}, {2, 1, 0}};
  for (size_t i = 0; i < keys.size(); ++i) cache.keep(keys[i], block_of(1, static_cast<int>(i)), 1);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(cache.find(keys[i])->bytes()[0], static_cast<std::byte>(i));
}

using test::ByteString;
using test::FaultyFile;

FaultyFile file_of(const ByteString& bytes) { return FaultyFile({bytes.bytes().begin(), bytes.bytes().end()}); }

ByteString layer_with_block_of(size_t bytes) { return test::MadeLayer(ByteString().zeros(bytes), {{}}).file(); }

TEST(LayerDigest, IsThatOfSizeAndEnds) {
  const ByteString layer = layer_with_block_of(100);
  const ByteString seen = ByteString().put(uint64_t{layer.size()}).append(layer).append(layer);
  EXPECT_EQ(layer_digest(file_of(layer)), codec::sha256_hex(seen.bytes()));
}

TEST(LayerDigest, NoticesChangesAtBothEnds) {
  constexpr size_t kBlock = 300000;
  const ByteString layer = layer_with_block_of(kBlock);
  const std::string digest = layer_digest(file_of(layer));
  const auto changed = [&](size_t at) {
    ByteString other = layer;
    return layer_digest(file_of(other.patch(at, uint8_t{1}))) != digest;
  };
  EXPECT_TRUE(changed(0));
  EXPECT_TRUE(changed(65535));
  EXPECT_FALSE(changed(150000));
  EXPECT_TRUE(changed(layer.size() - 65536));
  EXPECT_TRUE(changed(kBlock));  // the first byte of the footer
  EXPECT_NE(layer_digest(file_of(layer_with_block_of(kBlock + 8))), digest);
}

TEST(LayerDigest, WantsAWholeLayer) {
  const ByteString layer = layer_with_block_of(10);
  for (size_t size = 0; size < layer.size(); ++size) {
    ByteString cut = layer;
    const FaultyFile file = file_of(cut.cut(size));
    EXPECT_NE(test::corrupt([&] { layer_digest(file); }).find("faulty: "), std::string::npos) << size;
  }
  ByteString wrong = layer;
  const FaultyFile file = file_of(wrong.patch(layer.size() - 12, ~uint64_t{0}));
  EXPECT_EQ(test::corrupt([&] { layer_digest(file); }),
            cat("faulty: footer size: expected at most ", layer.size() - 12, ", got ", ~uint64_t{0}));
}

}  // namespace
}  // namespace atompack::array_file
