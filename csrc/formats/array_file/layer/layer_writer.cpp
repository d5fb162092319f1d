#include "formats/array_file/layer/layer_writer.h"

#include <algorithm>
#include <limits>

#include "formats/array_file/layer/layer.h"

namespace atompack::array_file {
namespace {

// An LZ4 block is preceded by its decoded size.
size_t prefix_bytes(codec::Codec codec) { return codec == codec::Codec::lz4 ? sizeof(uint32_t) : 0; }

// Chunks of this size are not copied.
constexpr uint64_t kLargeChunk = 1 << 20;
constexpr size_t kFirstBytes = 64 * 1024;

// Sizes of blocks unless the caller chooses one.
constexpr uint64_t kPlainBlockBytes = uint64_t{8} << 20;    // without a codec
constexpr uint64_t kBlockBytes = uint64_t{1} << 20;         // of arrays with one chunk
constexpr uint64_t kSplitBlockBytes = uint64_t{512} << 10;  // of arrays with several chunks

std::optional<std::string_view> footer_name(codec::Codec codec) {
  return codec == codec::Codec::none ? std::nullopt : std::optional(name_of(codec));
}

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

LayerWriter::LayerWriter(std::unique_ptr<io::NewFile> file, const LayerOptions& options)
    : file_(std::move(file)),
      options_(options),
      queue_(std::make_unique<BlockQueue>(*file_, options.codec, options.level, options.n_threads,
                                          (options.n_threads + 1) * options.block_bytes.value_or(kPlainBlockBytes))) {}

LayerWriter::~LayerWriter() = default;

std::unique_ptr<io::NewFile> LayerWriter::release() {
  queue_.reset();
  return std::move(file_);
}

// A slice needs some of several chunks, and a batch the chunks of some datasets, but a block is decoded at least up to
// the last of them: blocks are small, with as many chunks as come nearest to the intended size.
bool LayerWriter::is_full(uint64_t held, uint64_t bytes, uint64_t n_cells) const {
  if (options_.block_bytes) return held >= *options_.block_bytes;
  if (options_.codec == codec::Codec::none) return held >= kPlainBlockBytes;
  return held + bytes / 2 >= (n_cells == 1 ? kBlockBytes : kSplitBlockBytes);
}

// Closes the open block if it is full or would exceed the maximum size.
void LayerWriter::open_block_for(uint64_t bytes, uint64_t n_cells) {
  const uint64_t limit = max_block_bytes(options_.codec);
  if (bytes > limit) throw FieldError(cat("chunk: expected at most ", limit, " bytes, got ", bytes));
  const size_t held = queue_->open().size();
  if (held > 0 && (is_full(held, bytes, n_cells) || bytes > limit - held)) queue_->push();
}

std::byte* LayerWriter::add(uint64_t bytes, uint64_t n_cells, ChunkPlace& place) {
  open_block_for(bytes, n_cells);
  Buffer& open = queue_->open();
  place = {queue_->n_blocks(), static_cast<uint32_t>(open.size()), static_cast<uint32_t>(bytes)};
  return open.extend(bytes, kFirstBytes);
}

ChunkPlace LayerWriter::append(Bytes chunk, uint64_t n_cells) {
  ChunkPlace place;
  const bool directly = options_.codec == codec::Codec::none &&
                        chunk.size() >= std::min(kLargeChunk, options_.block_bytes.value_or(kPlainBlockBytes));
  if (!directly) {
    store(add(chunk.size(), n_cells, place), chunk);
    return place;
  }
  open_block_for(chunk.size(), n_cells);
  if (queue_->open().size() > 0) queue_->push();
  place = {queue_->n_blocks(), 0, static_cast<uint32_t>(chunk.size())};
  queue_->put(chunk);
  return place;
}

std::span<std::byte> LayerWriter::changeable(const ChunkPlace& place) const {
  if (place.block != queue_->n_blocks()) return {};
  return {queue_->open().data() + place.offset, place.bytes};
}

Bytes LayerWriter::read(const ChunkPlace& place) {
  if (place.block == queue_->n_blocks()) return queue_->open().bytes().subspan(place.offset, place.bytes);
  queue_->drain();
  if (options_.codec == codec::Codec::none) return read_stored(place.block, place.offset, place.bytes);
  if (decoded_block_ != place.block) {
    decoded_block_ = kNoBlock;
    const StoredBlock& block = queue_->blocks()[place.block];
    const BlockRecord record{place.block, 0, block.stored_bytes, block.decoded_bytes, footer_name(options_.codec)};
    decode_block(find_block(record, read_stored(place.block, 0, block.stored_bytes)), decoded_);
    decoded_block_ = place.block;
  }
  return Bytes(decoded_).subspan(place.offset, place.bytes);
}

Bytes LayerWriter::read_stored(uint32_t block, uint64_t offset, uint64_t bytes) {
  stored_.resize(bytes);
  const size_t got = file_->read_at(queue_->blocks()[block].offset + offset, stored_);
  if (got != bytes) throw CorruptFileError(cat("block: expected ", bytes, " bytes, got ", got)).in_file(file_->path());
  return stored_;
}

LayerContents LayerWriter::contents() const {
  LayerContents contents;
  for (const StoredBlock& block : queue_->blocks()) {
    contents.blocks.push_back({static_cast<uint32_t>(contents.blocks.size()), block.offset, block.stored_bytes,
                               block.decoded_bytes, footer_name(options_.codec)});
  }
  return contents;
}

void LayerWriter::finish(std::vector<const LayerArray*> arrays, uint32_t number, const std::string& base_hint) {
  queue_->resume();
  queue_->drain();
  if (Buffer& open = queue_->open(); open.size() > 0) {
    queue_->put(open.bytes());
    open.shrink(0);
  }
  LayerContents contents = this->contents();
  contents.arrays = std::move(arrays);
  contents.number = number;
  contents.base_hint = base_hint;
  contents.version = options_.version;
  const std::vector<std::byte> end = encode_layer_end(contents);
  file_->write_at(queue_->end(), end);
  file_->truncate(queue_->end() + end.size());
  file_->sync();
}

}  // namespace atompack::array_file
