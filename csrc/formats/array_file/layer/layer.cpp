#include "formats/array_file/layer/layer.h"

#include <algorithm>
#include <atomic>

#include "base/error_context.h"
#include "formats/array_file/layer/trailer.h"

namespace atompack::array_file {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;  // 0 means no layer
}

Footer parse_footer(Bytes archive, uint64_t offset) {
  try {
    return Footer(archive);
  } catch (DataError& error) {
    error.shift_offset(offset);
    throw;
  }
}

// Footer and trailer.
Bytes read_end(const io::ByteSource& file, io::RangeBuffer& buffer) {
  const uint64_t n_trailer = std::min<uint64_t>(file.length(), kTrailerBytes);
  const Bytes trailer = file.bytes(file.length() - n_trailer, n_trailer, buffer);
  const uint64_t n = footer_bytes(trailer, file.length()) + kTrailerBytes;
  return file.bytes(file.length() - n, n, buffer);
}

}  // namespace

Layer::Layer(std::shared_ptr<const io::ByteSource> file)
    : file_(std::move(file)),
      end_(in_file(path(), [&] { return read_end(*file_, end_buffer_); })),
      region_bytes_(file_bytes() - end_.size()),
      serial_(next_serial()),
      footer_(in_file(path(), [&] { return parse_footer(split_file(end_, kLayerMagic).archive, region_bytes_); })) {
  index_blocks();
}

void Layer::index_blocks() {
  for (uint64_t i = 0; i < footer_.n_blocks(); ++i) block_at_.emplace(footer_.block(i).id, i);
}

BlockRecord Layer::record(uint32_t id) const {
  const auto found = block_at_.find(id);
  if (found == block_at_.end()) throw CorruptFileError(cat("chunk: no block ", id, " in the footer"));
  return footer_.block(found->second);
}

BlockView Layer::block(uint32_t id) const {
  return in_file(path(), [&] {
    if (!file_->is_mapped()) throw InternalError("layer: expected a mapping");
    return find_block(record(id), file_->whole().first(region_bytes_));
  });
}

uint64_t Layer::decoded_bytes(uint32_t id) const {
  return in_file(path(), [&] { return record(id).decoded_bytes; });
}

BlockView Layer::read_block(uint32_t id, io::RangeBuffer& buffer) const {
  return in_file(path(), [&] {
    BlockRecord found = record(id);
    check_in_bounds(found, region_bytes_);
    const Bytes stored = file_->bytes(found.offset, found.stored_bytes, buffer);
    found.offset = 0;
    return find_block(found, stored);
  });
}

Bytes Layer::read(const ChunkRecord& chunk, DecodedBlock& last) const {
  return in_file(path(), [&] {
    const Bytes block = decoded(chunk.block, last);
    check_in_bounds(chunk, block.size());
    return block.subspan(chunk.offset, chunk.bytes);
  });
}

Bytes Layer::decoded(uint32_t id, DecodedBlock& last) const {
  if (last.layer_ == serial_ && last.block_ == id) return last.bytes_;
  last.layer_ = 0;  // in case decoding fails
  last.bytes_ = decode_block(file_->is_mapped() ? block(id) : read_block(id, last.stored_), last.buffer_);
  last.block_ = id;
  last.layer_ = serial_;
  return last.bytes_;
}

void check_in_bounds(const ChunkRecord& chunk, uint64_t block_bytes) {
  if (chunk.offset <= block_bytes && chunk.bytes <= block_bytes - chunk.offset) return;
  throw CorruptFileError(cat("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                             ", got a block of ", block_bytes));
}

}  // namespace atompack::array_file
