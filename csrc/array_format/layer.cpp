#include "array_format/layer.h"

#include <atomic>

#include "array_format/trailer.h"
#include "base/in_file.h"

namespace atompack::array_format {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;  // 0 is no layer
}

Footer parse_footer(Bytes file) {
  const Parts parts = split_file(file, kLayerMagic);
  try {
    return Footer(parts.archive);
  } catch (DataError& error) {
    error.shift_offset(parts.blocks.size());
    throw;
  }
}

}  // namespace

Layer::Layer(Bytes file, std::string path)
    : path_(std::move(path)),
      file_bytes_(file.size()),
      serial_(next_serial()),
      blocks_(in_file(path_, [&] { return split_file(file, kLayerMagic).blocks; })),
      footer_(in_file(path_, [&] { return parse_footer(file); })) {
  for (uint64_t i = 0; i < footer_.n_blocks(); ++i) block_at_.emplace(footer_.block(i).id, i);
}

BlockView Layer::block(uint32_t id) const {
  return in_file(path_, [&] {
    const auto found = block_at_.find(id);
    if (found == block_at_.end()) throw CorruptFileError(cat("chunk: no block ", id, " in the footer"));
    return find_block(footer_.block(found->second), blocks_);
  });
}

Bytes Layer::read(const ChunkRecord& chunk, DecodedBlock& last) const {
  return in_file(path_, [&] {
    const Bytes block = decoded(chunk.block, last);
    check_lies_in(chunk, block.size());
    return block.subspan(chunk.offset, chunk.bytes);
  });
}

Bytes Layer::decoded(uint32_t id, DecodedBlock& last) const {
  if (last.layer_ == serial_ && last.block_ == id) return last.bytes_;
  last.layer_ = 0;  // should this one not decode
  last.bytes_ = decode_block(block(id), last.buffer_);
  last.block_ = id;
  last.layer_ = serial_;
  return last.bytes_;
}

void check_lies_in(const ChunkRecord& chunk, uint64_t block_bytes) {
  if (chunk.offset <= block_bytes && chunk.bytes <= block_bytes - chunk.offset) return;
  throw CorruptFileError(cat("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                             ", got a block of ", block_bytes));
}

}  // namespace atompack::array_format
