#include "formats/array_file/layer/layer.h"

#include <algorithm>
#include <array>

#include "base/error_context.h"
#include "formats/array_file/layer/file_number.h"
#include "formats/array_file/layer/trailer.h"

namespace atompack::array_file {
namespace {

// Read at once from files that are not mapped.
constexpr uint64_t kUsualEndBytes = uint64_t{64} << 10;
// Fetched at once from a remote store, where a second request costs more than these bytes.
constexpr uint64_t kRemoteEndBytes = uint64_t{256} << 10;

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
  const uint64_t n = read_footer_bytes(file, buffer) + kTrailerBytes;
  return file.bytes(file.length() - n, n, buffer);
}

}  // namespace

void announce_end(const io::ByteSource& file) {
  const uint64_t n = std::min(file.length(), kRemoteEndBytes);
  file.announce(std::array{io::ByteRange{file.length() - n, n}});
}

uint64_t read_footer_bytes(const io::ByteSource& file, io::RangeBuffer& buffer) {
  const uint64_t n = std::min(file.length(), kUsualEndBytes);
  const Bytes end = file.bytes(file.length() - n, n, buffer);
  return footer_bytes(end.last(std::min(n, kTrailerBytes)), file.length());
}

Layer::Layer(std::shared_ptr<const io::ByteSource> file, io::RangeBuffer end,
             const std::optional<io::FileVersion>& version)
    : file_(std::move(file)),
      end_buffer_(std::move(end)),
      end_(in_file(path(), [&] { return read_end(*file_, end_buffer_); })),
      region_bytes_(file_bytes() - end_.size()),
      serial_(file_number(version)),
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
    const bool is_at_hand = file_->is_mapped() && file_->window() <= 1;
    return is_at_hand ? find_block(record(id), file_->whole().first(region_bytes_))
                      : describe_block(record(id), region_bytes_);
  });
}

std::optional<std::string_view> Layer::codec_of(uint32_t id) const {
  const auto found = block_at_.find(id);
  if (found == block_at_.end()) return std::nullopt;
  return footer_.block(found->second).codec.value_or("none");
}

uint64_t Layer::decoded_bytes(uint32_t id) const {
  return in_file(path(), [&] { return record(id).decoded_bytes; });
}

BlockView Layer::read_block(uint32_t id, io::RangeBuffer& buffer) const {
  return in_file(path(), [&] {
    BlockRecord found = record(id);
    static_cast<void>(describe_block(found, region_bytes_));
    const Bytes stored = file_->bytes(found.offset, found.stored_bytes, buffer);
    found.offset = 0;
    return find_block(found, stored);
  });
}

Bytes Layer::read_plain(uint32_t id, uint64_t offset, uint64_t n, io::RangeBuffer& buffer) const {
  return in_file(path(), [&] { return file_->bytes(record(id).offset + offset, n, buffer); });
}

io::ByteRange Layer::place_of(uint32_t id) const {
  const auto found = block_at_.find(id);
  if (found == block_at_.end()) return {};
  const BlockRecord block = footer_.block(found->second);
  const bool is_inside = block.offset <= region_bytes_ && block.stored_bytes <= region_bytes_ - block.offset;
  return is_inside ? io::ByteRange{block.offset, block.stored_bytes} : io::ByteRange{};
}

io::ByteRange Layer::range_of(const ChunkRecord& chunk) const {
  const io::ByteRange block = place_of(chunk.block);
  if (block.length == 0 || record(chunk.block).codec) return block;
  const bool is_inside = chunk.offset <= block.length && chunk.bytes <= block.length - chunk.offset;
  return is_inside ? io::ByteRange{block.offset + chunk.offset, chunk.bytes} : io::ByteRange{};
}

Bytes Layer::decode(uint32_t id, const BlockView& found, DecodedBlock& last) const {
  const bool is_kept = last.cache_ && found.codec != codec::Codec::none && found.decoded_bytes <= last.cache_->limit();
  const BlockCache::Key key{*serial_, id, kWholeBlock};
  last.kept_ = is_kept ? last.cache_->find(key) : nullptr;
  if (last.cache_ && found.codec != codec::Codec::none) last.cache_->count(last.kept_ != nullptr);
  if (last.kept_) return last.kept_->bytes();
  const BlockView block = found.is_read ? found : read_block(id, last.stored_);
  if (!is_kept) return decode_block(block, last.buffer_);
  auto decoded = std::make_shared<DecodedBytes>(block.decoded_bytes);
  decode_block(block, decoded->writable());
  last.kept_ = last.cache_->keep(key, decoded, block.decoded_bytes);
  return last.kept_->bytes();
}

Bytes Layer::read(const ChunkRecord& chunk, DecodedBlock& last) const {
  return in_file(path(), [&] {
    if (!is_held(chunk.block, last)) {
      const BlockView found = block(chunk.block);
      if (!found.is_read && found.codec == codec::Codec::none) {  // the rest of the block may be large
        check_in_bounds(chunk, found.decoded_bytes);
        return read_plain(chunk.block, chunk.offset, chunk.bytes, last.stored_);
      }
      last.layer_ = 0;  // in case decoding fails
      last.bytes_ = decode(chunk.block, found, last);
      last.block_ = chunk.block;
      last.layer_ = *serial_;
    }
    check_in_bounds(chunk, last.bytes_.size());
    return last.bytes_.subspan(chunk.offset, chunk.bytes);
  });
}

void check_in_bounds(const ChunkRecord& chunk, uint64_t block_bytes) {
  if (chunk.offset <= block_bytes && chunk.bytes <= block_bytes - chunk.offset) return;
  throw CorruptFileError(cat("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                             ", got a block of ", block_bytes));
}

}  // namespace atompack::array_file
