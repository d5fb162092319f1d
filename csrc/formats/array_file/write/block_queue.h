// Queue of blocks that are compressed on threads and appended to a new layer in order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "codec/codec.h"
#include "io/file_system.h"
#include "threads/ordered_pipeline.h"

namespace atompack::array_file {

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
  OrderedPipeline<Block> pipeline_;  // last member: its threads use the others
};

}  // namespace atompack::array_file
