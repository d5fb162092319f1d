#include "formats/atlas_shards/index.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"

namespace atompack::atlas_shards {
namespace {

constexpr uint64_t kMaxHeaderBytes = 1 << 16;
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;

void check_size(const NpyHeader& header, Bytes npy, uint64_t n_blocks) {
  const uint64_t expected = checked_add(n_blocks, 1, "index offsets");
  if (header.count != expected) {
    throw CorruptFileError(cat("index: expected ", expected, " offsets, got ", header.count));
  }
  ByteCursor cursor(npy);
  cursor.take(header.data_begin, "npy header");
  cursor.take(checked_mul(header.count, header.item_bytes, "index bytes"), "index offsets");
}

}  // namespace

BlockIndex::BlockIndex(std::vector<std::byte> npy, uint64_t n_blocks, uint64_t data_bytes)
    : header_(parse_npy_header(npy)), n_blocks_(n_blocks), npy_(std::move(npy)) {
  check_size(header_, npy_, n_blocks_);
  check(data_bytes);
}

uint64_t BlockIndex::max_file_bytes(uint64_t n_blocks) {
  const uint64_t bytes = checked_mul(checked_add(n_blocks, 1, "index offsets"), 8, "index bytes");
  return std::min(checked_add(bytes, kMaxHeaderBytes, "index bytes"), kMaxBytes);
}

uint64_t BlockIndex::offset(uint64_t i) const {
  const std::byte* const from = &npy_[header_.data_begin + i * header_.item_bytes];
  const bool swaps = header_.big_endian;
  switch (header_.item_bytes) {
    case 1:
      return static_cast<uint64_t>(*from);
    case 2:
      return swaps ? __builtin_bswap16(load_le<uint16_t>(from)) : load_le<uint16_t>(from);
    case 4:
      return swaps ? __builtin_bswap32(load_le<uint32_t>(from)) : load_le<uint32_t>(from);
    default:
      return swaps ? __builtin_bswap64(load_le<uint64_t>(from)) : load_le<uint64_t>(from);
  }
}

void BlockIndex::check(uint64_t data_bytes) const {
  // A negative number would look like a large one.
  const uint64_t max_offset = header_.is_signed ? (uint64_t{1} << (8 * header_.item_bytes - 1)) - 1 : UINT64_MAX;
  uint64_t before = 0;
  for (uint64_t i = 0; i <= n_blocks_; ++i) {
    const uint64_t here = offset(i);
    if (here > max_offset) throw CorruptFileError(cat("index: expected no negative offset, got one at ", i));
    if (here < before) {
      throw CorruptFileError(cat("index: expected offset ", i, " to be at least ", before, ", got ", here));
    }
    before = here;
  }
  if (before > data_bytes) {
    throw CorruptFileError(
        cat("index: expected blocks inside the ", data_bytes, " bytes of data, got an end at ", before));
  }
}

std::vector<std::byte> encode_index(std::span<const uint64_t> offsets) {
  const uint64_t last = offsets.back();
  const uint8_t item_bytes = last <= UINT8_MAX ? 1 : last <= UINT16_MAX ? 2 : last <= UINT32_MAX ? 4 : 8;
  std::vector<std::byte> npy = encode_npy_header(offsets.size(), item_bytes);
  npy.reserve(npy.size() + offsets.size() * item_bytes);
  for (const uint64_t offset : offsets) {
    const Bytes bytes = std::as_bytes(std::span(&offset, 1)).first(item_bytes);
    npy.insert(npy.end(), bytes.begin(), bytes.end());
  }
  return npy;
}

}  // namespace atompack::atlas_shards
