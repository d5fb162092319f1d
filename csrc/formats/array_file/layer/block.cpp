#include "formats/array_file/layer/block.h"

namespace atompack::array_file {
namespace {

using codec::Codec;

Codec codec_of(const BlockRecord& block) {
  if (!block.codec) return Codec::none;
  if (*block.codec == "lz4") return Codec::lz4;
  if (*block.codec == "zstd") return Codec::zstd;
  throw UnsupportedFormatError(cat("codec: expected lz4 or zstd, got '", *block.codec, "'"));
}

// An LZ4 block is preceded by its decoded size.
Bytes without_prefix(const BlockRecord& block, Bytes stored) {
  ByteCursor cursor(stored);
  if (const auto prefix = cursor.read_le<uint32_t>("lz4 prefix"); prefix != block.decoded_bytes) {
    throw CorruptFileError(cat("lz4 prefix: expected ", block.decoded_bytes, ", got ", prefix));
  }
  return stored.subspan(cursor.position());
}

void check_decoded_bytes(const BlockRecord& block, Codec codec, uint64_t stored_bytes, uint64_t bound) {
  if (block.decoded_bytes <= bound && (codec != Codec::none || block.decoded_bytes == bound)) return;
  throw CorruptFileError(cat("block ", block.id, ": ", stored_bytes, " stored bytes (", name_of(codec),
                             ") hold at most ", bound, ", got an uncompressed size of ", block.decoded_bytes));
}

}  // namespace

void check_in_bounds(const BlockRecord& block, uint64_t region_bytes) {
  if (block.offset <= region_bytes && block.stored_bytes <= region_bytes - block.offset) return;
  throw CorruptFileError(cat("block ", block.id, ": expected ", block.stored_bytes, " bytes at ", block.offset,
                             ", got a region of ", region_bytes));
}

BlockView find_block(const BlockRecord& block, Bytes region) {
  const Codec codec = codec_of(block);
  check_in_bounds(block, region.size());
  Bytes stored = region.subspan(block.offset, block.stored_bytes);
  if (codec == Codec::lz4) stored = without_prefix(block, stored);
  check_decoded_bytes(block, codec, stored.size(), codec::decoded_bound(codec, stored));
  return {codec, stored, block.decoded_bytes};
}

BlockView describe_block(const BlockRecord& block, uint64_t region_bytes) {
  const Codec codec = codec_of(block);
  check_in_bounds(block, region_bytes);
  if (codec == Codec::none) check_decoded_bytes(block, codec, block.stored_bytes, block.stored_bytes);
  return {codec, {}, block.decoded_bytes, false};
}

void decode_block(const BlockView& block, std::span<std::byte> out) {
  codec::decompress(block.codec, block.stored, out);
}

void decode_front(const BlockView& block, std::span<std::byte> out) {
  if (out.size() == block.decoded_bytes) return decode_block(block, out);
  codec::decompress_front(block.codec, block.stored, out);
}

Bytes decode_block(const BlockView& block, std::vector<std::byte>& buffer) {
  if (block.codec == Codec::none) return block.stored;
  buffer.resize(block.decoded_bytes);
  decode_block(block, std::span(buffer));
  return buffer;
}

}  // namespace atompack::array_file
