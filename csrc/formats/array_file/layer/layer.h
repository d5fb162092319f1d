// Layer: a file of blocks with a footer at its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/lru_cache.h"
#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"
#include "io/byte_source.h"
#include "io/file.h"
#include "io/file_system.h"
#include "io/huge_pages.h"
#include "threads/per_process.h"

namespace atompack::array_file {

// Blocks: groups of chunks that are compressed together.

// A stored block.
struct BlockView {
  codec::Codec codec = codec::Codec::none;
  Bytes stored;
  uint64_t decoded_bytes = 0;
  bool is_read = true;  // false: `stored` is empty, and its size was not checked against it
};

// Throws CorruptFileError unless the block is inside a region of this many bytes.
void check_in_bounds(const BlockRecord& block, uint64_t region_bytes);

// Returns a block in `region`. Throws CorruptFileError for a size that the stored bytes cannot have, before memory is
// allocated for it; UnsupportedFormatError for other codecs.
BlockView find_block(const BlockRecord& block, Bytes region);

// Returns a block in a region of this many bytes without its stored bytes. Makes those of the checks of find_block(),
// in the same order, that its record suffices for.
BlockView describe_block(const BlockRecord& block, uint64_t region_bytes);

// Decodes the block into `out`, which must have its decoded size. Throws CorruptFileError.
void decode_block(const BlockView& block, std::span<std::byte> out);

// Decodes the first out.size() bytes of the block. Throws CorruptFileError.
void decode_front(const BlockView& block, std::span<std::byte> out);

// Returns the decoded bytes, in `buffer` unless the block is stored uncompressed.
Bytes decode_block(const BlockView& block, std::vector<std::byte>& buffer);

// Cache of decoded blocks, shared by readers of a process.

// Uninitialized memory.
class DecodedBytes {
 public:
  explicit DecodedBytes(size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {
    io::prefer_huge_pages(bytes_.get(), size);
    constexpr size_t kManyPages = size_t{128} << 10;
    if (size >= kManyPages) io::populate(bytes_.get(), size);
  }
  Bytes bytes() const { return {bytes_.get(), size_}; }
  std::span<std::byte> writable() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_;
};

// Keeps decoded blocks, those that were used last. Thread-safe; a fork begins with an empty one.
class BlockCache {
 public:
  // Serial number of the layer, id of the block, and offset of a part of it (kWholeBlock: all of it).
  using Key = std::tuple<uint64_t, uint32_t, uint64_t>;

  explicit BlockCache(uint64_t limit);

  std::shared_ptr<const DecodedBytes> find(const Key& key) { return content().blocks.find(key); }
  // See LruCache.
  std::shared_ptr<const DecodedBytes> keep(const Key& key, std::shared_ptr<const DecodedBytes> block, uint64_t cost) {
    return content().blocks.keep(key, std::move(block), cost);
  }
  void clear() { content().blocks.clear(); }
  uint64_t limit() const { return limit_; }
  uint64_t used() { return content().blocks.used(); }

  // Counts a block that was needed: found here, or decoded.
  void count(bool is_found) { (is_found ? content().hits : content().misses).fetch_add(1, std::memory_order_relaxed); }
  uint64_t hits() { return content().hits; }
  uint64_t misses() { return content().misses; }

 private:
  struct Content {
    explicit Content(uint64_t limit) : blocks(limit) {}
    LruCache<Key, DecodedBytes> blocks;
    std::atomic<uint64_t> hits{0}, misses{0};
  };

  Content& content() { return content_.get(); }

  uint64_t limit_;
  threads::PerProcess<Content> content_;
};

inline constexpr uint64_t kWholeBlock = ~uint64_t{0};

// The cache that readers of a process share unless they are given another. Up to 256 MiB.
std::shared_ptr<BlockCache> shared_block_cache();

// The block decoded last, so that chunks of the same block do not decode it again. One per thread that reads; it can be
// used with any reader that is still alive.
class DecodedBlock {
 public:
  DecodedBlock() = default;
  // `cache`: of whole blocks, used if it is not nullptr.
  explicit DecodedBlock(std::shared_ptr<BlockCache> cache) : cache_(std::move(cache)) {}

 private:
  friend class Layer;
  uint64_t layer_ = 0;
  uint32_t block_ = 0;
  Bytes bytes_;
  std::vector<std::byte> buffer_;
  std::shared_ptr<BlockCache> cache_;
  std::shared_ptr<const DecodedBytes> kept_;  // of the cache
  io::RangeBuffer stored_;                    // of a layer that is not mapped
};

// Const methods are thread-safe.
class Layer {
 public:
  // Reads the footer now and blocks one at a time. Throws CorruptFileError or UnsupportedFormatError; errors name the
  // file. `end`: used for read_footer_bytes(). `version`: of the open file; layers of equal files share decoded blocks.
  explicit Layer(std::shared_ptr<const io::ByteSource> file, io::RangeBuffer end = {},
                 const std::optional<io::FileVersion>& version = std::nullopt);
  Layer(const Layer&) = delete;  // the footer views its bytes
  Layer(Layer&&) = default;

  const Footer& footer() const { return footer_; }
  const std::string& path() const { return file_->path(); }
  uint64_t file_bytes() const { return file_->length(); }

  const io::ByteSource& file() const { return *file_; }

  // Returns the block with this id. Throws CorruptFileError if it is missing or its sizes are wrong. Not read if that
  // may take time: if it is not mapped, or not in memory.
  BlockView block(uint32_t id) const;
  // The same with its stored bytes, in `buffer` unless the layer is mapped.
  BlockView read_block(uint32_t id, io::RangeBuffer& buffer) const;
  // Reads bytes of an uncompressed block, which has them.
  Bytes read_plain(uint32_t id, uint64_t offset, uint64_t n, io::RangeBuffer& buffer) const;
  // Where the block is in the file; empty if it is damaged.
  io::ByteRange place_of(uint32_t id) const;
  // What read() reads of the file for a chunk: the whole block unless that is uncompressed. Empty if it is damaged.
  io::ByteRange range_of(const ChunkRecord& chunk) const;
  // Name of the codec that the footer gives for a block, whether we know it or not; "none" if it is not compressed,
  // nullopt if there is no such block.
  std::optional<std::string_view> codec_of(uint32_t id) const;
  // Decoded size of a block by the footer, not yet checked against its stored bytes.
  uint64_t decoded_bytes(uint32_t id) const;
  // Distinguishes the file of this layer from all others of this process, including earlier ones.
  uint64_t serial() const { return *serial_; }

  // Valid until `last` is used again.
  Bytes read(const ChunkRecord& chunk, DecodedBlock& last) const;
  // True if reading a chunk of this block would not read it from the file again.
  bool is_held(uint32_t id, const DecodedBlock& last) const { return last.layer_ == *serial_ && last.block_ == id; }

 private:
  BlockRecord record(uint32_t id) const;
  void index_blocks();
  Bytes decode(uint32_t id, const BlockView& found, DecodedBlock& last) const;

  std::shared_ptr<const io::ByteSource> file_;
  io::RangeBuffer end_buffer_;  // footer and trailer, of a layer that is not mapped
  Bytes end_;
  uint64_t region_bytes_;  // of all blocks
  std::shared_ptr<const uint64_t> serial_;
  Footer footer_;
  std::unordered_map<uint32_t, uint64_t> block_at_;
};

// Runs `action`; data errors that do not name them yet get the array, unless it has no name, and the file.
template <typename Action>
decltype(auto) in_array(const std::string& path, std::string_view array, const Action& action) {
  const auto add_names = [&](DataError& error) {
    if (!array.empty()) error.at_field(array);
    error.in_file(path);
  };
  return with_context(add_names, action);
}

// Starts fetching what read_footer_bytes() reads.
void announce_end(const io::ByteSource& file);
// Returns the size of the footer. Reads the end of the file, with what usually is the whole footer.
uint64_t read_footer_bytes(const io::ByteSource& file, io::RangeBuffer& buffer);

// Throws CorruptFileError if the chunk is not inside a block of this many decoded bytes.
void check_in_bounds(const ChunkRecord& chunk, uint64_t block_bytes);

// The digest that distinguishes layers.

// SHA-256 of a layer's size (u64), its footer, and up to 64 KiB from each end of the file, so that it need not be read
// whole. Throws CorruptFileError if the file does not end like a layer.
std::string layer_digest(const io::ReadableFile& layer);

}  // namespace atompack::array_file
