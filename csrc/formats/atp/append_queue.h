// Records on their way to the end of a file: compressed on threads, appended in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "codec/codec.h"
#include "formats/atp/index.h"
#include "io/writable_file.h"

namespace atompack::atp {

// Memory is bounded: whoever adds records waits while too many blocks of them are under way. A failure of the file
// stops the queue and is thrown by the next call that waits for it; nothing that was added is lost by that, and
// resume() tries again. For one caller at a time.
class AppendQueue {
 public:
  // Appends from `end` on. `n_threads` compress and write.
  AppendQueue(io::WritableFile& file, codec::Codec codec, int level, uint64_t end, unsigned n_threads);
  AppendQueue(const AppendQueue&) = delete;
  AppendQueue& operator=(const AppendQueue&) = delete;
  // What was not written yet is dropped.
  ~AppendQueue();

  // Room for one more record, to be filled before the next call.
  std::byte* add(uint32_t record_bytes, uint32_t n_atoms);
  // One more that is compressed already.
  void add_stored(Bytes stored, uint32_t record_bytes, uint32_t n_atoms);

  // Returns once all records are in the file (not durable yet).
  void drain();

  // Forgets a failure, so that the next call tries again.
  void resume();

  // Number of records since the last restart(), and what is known of them once they are written.
  uint64_t size() const { return n_added_; }
  const std::vector<IndexEntry>& entries() const { return entries_; }
  uint64_t end() const { return end_; }

  // Drops the records from this number on.
  void roll_back(uint64_t size);

  // Begins anew at another place, with no entries; all records must have been written.
  void restart(uint64_t end);

 private:
  struct Record {
    uint32_t record_bytes, stored_bytes, n_atoms;
  };
  enum class Stage : uint8_t { added, being_coded, coded };
  struct Block {
    Stage stage = Stage::added;
    uint64_t first = 0;     // the number of its first record
    size_t held_bytes = 0;  // when it was pushed
    Buffer in, out;         // records as they were added, and as they are stored
    std::vector<Record> records;
  };
  using Lock = std::unique_lock<std::mutex>;

  Block& open_block(size_t room, Stage stage);
  void push();
  void work();
  Block* next_to_code();
  bool can_write() const;
  void code(Block& block) const;
  void write_front(Lock& lock);
  size_t held_bytes() const;
  void throw_failure();
  void stop_threads();
  static void cut(Block& block, uint64_t n_records);

  io::WritableFile& file_;
  const codec::Codec codec_;
  const int level_;
  const unsigned n_threads_;
  uint64_t n_added_ = 0;
  std::unique_ptr<Block> open_;  // being filled by the caller

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Block>> blocks_;  // in order
  std::vector<std::unique_ptr<Block>> spare_;
  std::vector<IndexEntry> entries_;
  uint64_t end_;
  int n_coding_ = 0;
  bool writing_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace atompack::atp
