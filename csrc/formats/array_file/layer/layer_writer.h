// Writer of a new layer: chunks packed into blocks, and a footer at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/codec.h"
#include "formats/array_file/layer/footer_encoder.h"
#include "io/file_system.h"
#include "threads/ordered_pipeline.h"

namespace atompack::array_file {

// Queue of blocks that are compressed on threads and appended to a new layer in order.

// Location of a block in the file. Its id is its index in the list of all blocks.
struct StoredBlock {
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
};

// Maximum uncompressed size of a block in a layer.
uint64_t max_block_bytes(codec::Codec codec);

// Memory is bounded: push() blocks while more than `max_queued_bytes` are in the queue. A write error stops the queue
// and is thrown by the next call that waits for it; no block is lost, and resume() tries again. For one caller at a
// time.
class BlockQueue {
 public:
  BlockQueue(io::NewFile& file, codec::Codec codec, int level, unsigned n_threads, uint64_t max_queued_bytes);

  // The bytes of the next block, for the caller to fill.
  Buffer& open() { return open_.in; }
  // Queues the open block, and opens an empty one. Changes nothing if it throws.
  void push();
  // Writes another block on this thread, without copying it. If it throws, the block does not exist.
  void put(Bytes block);
  // Returns once all blocks are in the file (not durable yet).
  void drain() { pipeline_.drain(); }
  // Clears a write error, so that the next call tries again.
  void resume() { pipeline_.resume(); }

  // The id of the next block.
  uint32_t n_blocks() const { return n_blocks_; }
  // Valid after drain().
  const std::vector<StoredBlock>& blocks() const { return stored_; }
  uint64_t end() const { return end_; }

 private:
  struct Block {
    Buffer in, out;
  };

  Bytes compress(Bytes block, Buffer& out) const;
  void append(Bytes stored, uint64_t decoded_bytes);

  io::NewFile& file_;
  const codec::Codec codec_;
  const int level_;
  uint32_t n_blocks_ = 0;
  Block open_;
  // Appended blocks: used by the pipeline while tasks are in it, otherwise by the caller.
  std::vector<StoredBlock> stored_;
  uint64_t end_ = 0;
  threads::OrderedPipeline<Block> pipeline_;  // last member: its threads use the others
};

struct LayerOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;
  std::optional<uint64_t> block_bytes = {};  // see WriterOptions
  unsigned n_threads = 1;
  uint32_t version = kFooterVersion;  // of the footer
};

// For one thread at a time. Throws IoError, after which all calls can be repeated.
class LayerWriter {
 public:
  LayerWriter(std::unique_ptr<io::NewFile> file, const LayerOptions& options);
  // Removes an unpublished file.
  ~LayerWriter();

  // Returns memory for one more chunk, to be filled before the next call. `n_cells`: of its array, which decides how
  // large its block becomes. Throws FieldError if no block can hold it.
  std::byte* add(uint64_t bytes, uint64_t n_cells, ChunkPlace& place);
  // Adds a chunk from existing memory.
  ChunkPlace append(Bytes chunk, uint64_t n_cells);
  // Returns a chunk that can still be changed; empty if it is on its way into the file.
  std::span<std::byte> changeable(const ChunkPlace& place) const;
  // Valid until the next call.
  Bytes read(const ChunkPlace& place);

  // Clears a write error, so that the next call tries again.
  void resume() { queue_->resume(); }

  // Makes everything added so far durable, with a footer for these arrays. More can be added afterwards.
  void finish(std::vector<const LayerArray*> arrays, uint32_t number, const std::string& base_hint);

  io::NewFile& file() { return *file_; }
  // Returns the file; the writer cannot be used afterwards.
  std::unique_ptr<io::NewFile> release();

 private:
  bool is_full(uint64_t held, uint64_t bytes, uint64_t n_cells) const;
  void open_block_for(uint64_t bytes, uint64_t n_cells);
  Bytes read_stored(uint32_t block, uint64_t offset, uint64_t bytes);
  LayerContents contents() const;

  std::unique_ptr<io::NewFile> file_;
  const LayerOptions options_;
  std::unique_ptr<BlockQueue> queue_;
  std::vector<std::byte> stored_, decoded_;
  uint32_t decoded_block_ = kNoBlock;

  static constexpr uint32_t kNoBlock = 0xFFFFFFFF;
};

}  // namespace atompack::array_file
