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

// Reads footer and trailer.
std::vector<std::byte> read_end(const io::RangeReader& file) {
  std::vector<std::byte> trailer(std::min<uint64_t>(file.length(), kTrailerBytes));
  file.read(file.length() - trailer.size(), trailer);
  std::vector<std::byte> end(footer_bytes(trailer, file.length()) + kTrailerBytes);
  file.read(file.length() - end.size(), end);
  return end;
}

}  // namespace

Layer::Layer(Bytes file, std::string path)
    : path_(std::move(path)),
      region_bytes_(in_file(path_, [&] { return split_file(file, kLayerMagic).blocks.size(); })),
      file_bytes_(file.size()),
      serial_(next_serial()),
      blocks_(file.first(region_bytes_)),
      footer_(in_file(path_, [&] { return parse_footer(split_file(file, kLayerMagic).archive, region_bytes_); })) {
  index_blocks();
}

Layer::Layer(const io::RangeReader& file)
    : path_(file.path()),
      chunk_refs_(&file),
      end_(in_file(path_, [&] { return read_end(file); })),
      region_bytes_(file.length() - end_.size()),
      file_bytes_(file.length()),
      serial_(next_serial()),
      footer_(in_file(path_, [&] { return parse_footer(split_file(end_, kLayerMagic).archive, region_bytes_); })) {
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
  return in_file(path_, [&] {
    if (chunk_refs_ != nullptr) throw InternalError("layer: expected a mapping");
    return find_block(record(id), blocks_);
  });
}

uint64_t Layer::decoded_bytes(uint32_t id) const {
  return in_file(path_, [&] { return record(id).decoded_bytes; });
}

BlockView Layer::read_block(uint32_t id, io::RangeBuffer& buffer) const {
  return in_file(path_, [&] {
    BlockRecord found = record(id);
    check_in_bounds(found, region_bytes_);
    const Bytes stored = chunk_refs_->read(found.offset, found.stored_bytes, buffer);
    found.offset = 0;
    return find_block(found, stored);
  });
}

Bytes Layer::read(const ChunkRecord& chunk, DecodedBlock& last) const {
  return in_file(path_, [&] {
    const Bytes block = decoded(chunk.block, last);
    check_in_bounds(chunk, block.size());
    return block.subspan(chunk.offset, chunk.bytes);
  });
}

Bytes Layer::decoded(uint32_t id, DecodedBlock& last) const {
  if (last.layer_ == serial_ && last.block_ == id) return last.bytes_;
  last.layer_ = 0;  // in case decoding fails
  last.bytes_ = decode_block(chunk_refs_ == nullptr ? block(id) : read_block(id, last.stored_), last.buffer_);
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
