// Blocks on their way into a new layer: compressed on threads, put one behind the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "codec/codec.h"
#include "io/file_system.h"

namespace atompack::array_file {

// Where a block lies. Its id is its place in the list of all.
struct StoredBlock {
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
};

// The longest block, before it is compressed, that a layer can hold.
uint64_t most_block_bytes(codec::Codec codec);

// Memory is bounded: who pushes waits while too much is under way. A failure of the file stops the queue and is thrown
// by the next call that waits for it; nothing that was pushed is lost by that, and resume() tries again. For one caller
// at a time.
class BlockQueue {
 public:
  BlockQueue(io::NewFile& file, codec::Codec codec, int level, unsigned n_threads);
  BlockQueue(const BlockQueue&) = delete;
  BlockQueue& operator=(const BlockQueue&) = delete;
  // What was not written yet is dropped.
  ~BlockQueue();

  // Takes the bytes over, and gives others to fill in exchange. Where it throws, all stays as it was.
  void push(Buffer& block, uint64_t most_held_bytes);
  // Writes a block in this thread, from where it lies. Where it throws, there is no such block.
  void put(Bytes block);
  // Returns once all blocks are in the file (not durable yet).
  void drain();
  // Forgets a failure, so that the next call tries again.
  void resume();

  // The id of the next block.
  uint32_t n_blocks() const { return n_pushed_; }
  // After drain().
  const std::vector<StoredBlock>& blocks() const { return stored_; }
  uint64_t end() const { return end_; }

 private:
  struct Block {
    uint32_t id = 0;
    bool taken = false;   // by a thread
    bool placed = false;  // in stored_
    Buffer in, out;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  Block* next();
  bool write(Block& block);
  Bytes coded(Bytes block, Buffer& out) const;
  std::optional<StoredBlock> place(uint32_t id, Bytes coded, uint64_t decoded_bytes);
  void finish(Block& block);
  uint64_t held_bytes() const;
  void throw_failure();

  io::NewFile& file_;
  const codec::Codec codec_;
  const int level_;
  const unsigned n_threads_;
  uint32_t n_pushed_ = 0;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Block>> blocks_;  // by id
  std::vector<std::unique_ptr<Block>> spare_;
  std::vector<StoredBlock> stored_;  // those that have a place
  uint64_t end_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace atompack::array_file
