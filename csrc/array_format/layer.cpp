#include "array_format/layer.h"

#include <atomic>

#include "array_format/block.h"
#include "array_format/trailer.h"

namespace atompack::array_format {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;  // 0 is no layer
}

template <typename Action>
auto in_file(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    error.in_file(path);
    throw;
  }
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
      serial_(next_serial()),
      blocks_(in_file(path_, [&] { return split_file(file, kLayerMagic).blocks; })),
      footer_(in_file(path_, [&] { return parse_footer(file); })) {
  for (uint64_t i = 0; i < footer_.n_blocks(); ++i) block_at_.emplace(footer_.block(i).id, i);
}

Bytes Layer::read(const ChunkRecord& chunk, DecodedBlock& last) const {
  return in_file(path_, [&] {
    const Bytes block = decoded(chunk.block, last);
    if (chunk.offset > block.size() || chunk.bytes > block.size() - chunk.offset) {
      throw CorruptFileError(cat("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                                 ", got a block of ", block.size()));
    }
    return block.subspan(chunk.offset, chunk.bytes);
  });
}

Bytes Layer::decoded(uint32_t block, DecodedBlock& last) const {
  if (last.layer_ == serial_ && last.block_ == block) return last.bytes_;
  last.layer_ = 0;  // should this one not decode
  const auto found = block_at_.find(block);
  if (found == block_at_.end()) throw CorruptFileError(cat("chunk: no block ", block, " in the footer"));
  last.bytes_ = decode_block(footer_.block(found->second), blocks_, last.buffer_);
  last.block_ = block;
  last.layer_ = serial_;
  return last.bytes_;
}

}  // namespace atompack::array_format
