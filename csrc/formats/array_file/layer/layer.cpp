#include "formats/array_file/layer/layer.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "codec/checksums.h"

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
    throw_corrupt("lz4 prefix: expected ", block.decoded_bytes, ", got ", prefix);
  }
  return stored.subspan(cursor.position());
}

void check_decoded_bytes(const BlockRecord& block, Codec codec, uint64_t stored_bytes, uint64_t bound) {
  if (block.decoded_bytes <= bound && (codec != Codec::none || block.decoded_bytes == bound)) return;
  throw_corrupt("block ", block.id, ": ", stored_bytes, " stored bytes (", name_of(codec), ") hold at most ", bound,
                ", got an uncompressed size of ", block.decoded_bytes);
}

// Created when the library is loaded, so that no fork can interrupt it.
const std::shared_ptr<BlockCache> cache = std::make_shared<BlockCache>(uint64_t{256} << 20);

}  // namespace

void check_in_bounds(const BlockRecord& block, uint64_t region_bytes) {
  if (block.offset <= region_bytes && block.stored_bytes <= region_bytes - block.offset) return;
  throw_corrupt("block ", block.id, ": expected ", block.stored_bytes, " bytes at ", block.offset, ", got a region of ",
                region_bytes);
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

BlockCache::BlockCache(uint64_t limit)
    : limit_(limit), content_([limit] { return std::make_unique<Content>(limit); }) {}

std::shared_ptr<BlockCache> shared_block_cache() { return cache; }

namespace {

// Numbers of open files, by which caches tell them apart.

std::shared_ptr<const uint64_t> new_number() {
  static std::atomic<uint64_t> last{0};
  return std::make_shared<const uint64_t>(++last);  // 0 means no file
}

// Thread-safe.
class FileNumbers {
 public:
  std::shared_ptr<const uint64_t> find(const io::FileVersion& version) {
    const std::scoped_lock lock(mutex_);
    if (numbers_.size() >= max_size_) drop_closed();
    std::weak_ptr<const uint64_t>& known =
        numbers_[{version.device, version.inode, version.size, version.seconds, version.nanoseconds}];
    std::shared_ptr<const uint64_t> number = known.lock();
    if (!number) known = number = new_number();
    return number;
  }

 private:
  void drop_closed() {
    std::erase_if(numbers_, [](const auto& entry) { return entry.second.expired(); });
    max_size_ = std::max(kMinSize, 2 * numbers_.size());
  }

  static constexpr size_t kMinSize = 256;

  std::mutex mutex_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>, std::weak_ptr<const uint64_t>> numbers_;
  size_t max_size_ = kMinSize;
};

const threads::PerProcess<FileNumbers> numbers([] { return std::make_unique<FileNumbers>(); });

// Returns a number of this process that no other file has had. Files of equal version have the same one as long as one
// of the results is alive: its owner has the file open, so no other file can get its inode. nullopt: shares none.
std::shared_ptr<const uint64_t> file_number(const std::optional<io::FileVersion>& version) {
  return version ? numbers.get().find(*version) : new_number();
}

// Read with the first request from files that are not mapped.
constexpr uint64_t kUsualEndBytes = uint64_t{64} << 10;
// Fetched with the first request from a remote store, where a second request costs more than these bytes.
constexpr uint64_t kRemoteEndBytes = uint64_t{256} << 10;

Footer parse_footer(Bytes archive, uint64_t offset) {
  return shift_offset(offset, "", [&] { return Footer(archive); });
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
  if (found == block_at_.end()) throw_corrupt("chunk: no block ", id, " in the footer");
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
  throw_corrupt("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                ", got a block of ", block_bytes);
}

namespace {

// The last bytes of a file, at most `max_bytes`.
std::vector<std::byte> end_of(const io::ReadableFile& file, uint64_t limit) {
  const uint64_t size = file.size();
  std::vector<std::byte> bytes(std::min(size, limit));
  bytes.resize(file.read_at(size - bytes.size(), bytes));
  return bytes;
}

}  // namespace

std::string layer_digest(const io::ReadableFile& layer) {
  constexpr uint64_t kEndBytes = 64 * 1024;
  return in_file(layer.path(), [&] {
    std::vector<std::byte> begin(std::min(layer.size(), kEndBytes));
    begin.resize(layer.read_at(0, begin));
    std::vector<std::byte> end = end_of(layer, kEndBytes);
    const Bytes trailer = Bytes(end).last(std::min<size_t>(end.size(), kTrailerBytes));
    const uint64_t bytes = footer_bytes(trailer, layer.size()) + kTrailerBytes;
    if (bytes > kEndBytes) end = end_of(layer, bytes);
    std::vector<std::byte> seen;
    append_le(seen, layer.size());
    append(seen, begin);
    append(seen, end);
    return codec::sha256_hex(seen);
  });
}

}  // namespace atompack::array_file
