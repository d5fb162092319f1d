#include "formats/array_file/write/block_queue.h"

#include <limits>

namespace atompack::array_file {
namespace {

// An LZ4 block is preceded by its decoded size.
size_t prefix_bytes(codec::Codec codec) { return codec == codec::Codec::lz4 ? sizeof(uint32_t) : 0; }

}  // namespace

uint64_t max_block_bytes(codec::Codec codec) {
  constexpr uint64_t kMaxOfLz4 = 0x7E000000;
  return codec == codec::Codec::lz4 ? kMaxOfLz4 : std::numeric_limits<uint32_t>::max();
}

BlockQueue::BlockQueue(io::NewFile& file, codec::Codec codec, int level, unsigned n_threads, uint64_t max_queued_bytes)
    : file_(file),
      codec_(codec),
      level_(level),
      pipeline_(
          n_threads, [this](Block& block) { compress(block.in.bytes(), block.out); },
          [this](Block& block) {
            append((codec_ == codec::Codec::none ? block.in : block.out).bytes(), block.in.size());
            block.in.shrink(0);
          },
          max_queued_bytes) {}

void BlockQueue::push() {
  pipeline_.push(open_, open_.in.size());
  ++n_blocks_;
}

void BlockQueue::put(Bytes block) {
  Buffer out;
  const Bytes stored = compress(block, out);
  drain();
  append(stored, block.size());
  ++n_blocks_;
}

// The bytes to store, in `out`; the block itself if it is not compressed.
Bytes BlockQueue::compress(Bytes block, Buffer& out) const {
  if (codec_ == codec::Codec::none) return block;
  const size_t prefix = prefix_bytes(codec_), bound = codec::compressed_bound(codec_, block.size());
  out.shrink(0);
  std::byte* const room = out.extend(prefix + bound, 0);
  if (prefix > 0) store_le(room, static_cast<uint32_t>(block.size()));
  out.shrink(prefix + codec::compress(codec_, level_, block, {room + prefix, bound}));
  return out.bytes();
}

void BlockQueue::append(Bytes stored, uint64_t decoded_bytes) {
  file_.write_at(end_, stored);
  file_.start_writing_back(end_, stored.size());
  stored_.push_back({end_, stored.size(), decoded_bytes});
  end_ += stored.size();
}

}  // namespace atompack::array_file
