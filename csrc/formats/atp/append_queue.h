// The queue of records that are compressed on threads and appended to a file in order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "codec/codec.h"
#include "formats/atp/index.h"
#include "io/writable_file.h"
#include "threads/ordered_pipeline.h"

namespace atompack::atp {

// Memory is bounded: adding records blocks while too many are in the queue. A failure of the file stops the queue and
// is thrown by the next call that waits for it; no record is lost, and resume() tries again. For one caller at a time.
class AppendQueue {
 public:
  // Appends from `end` on. `n_threads` compress and write.
  AppendQueue(io::WritableFile& file, codec::Codec codec, int level, uint64_t end, unsigned n_threads);

  // Room for one more record, to be filled before the next call.
  std::byte* add(uint32_t record_bytes, uint32_t n_atoms);
  // Adds a record that is compressed already.
  void add_stored(Bytes stored, uint32_t record_bytes, uint32_t n_atoms);

  // Returns once all records are in the file (not durable yet).
  void drain();

  // Forgets a failure, so that the next call tries again.
  void resume() { pipeline_.resume(); }

  // The number of records since the last restart(), and their places after drain().
  uint64_t size() const { return n_added_; }
  const std::vector<IndexEntry>& entries() const { return entries_; }
  uint64_t end() const { return end_; }

  // Drops the records from this number on.
  void roll_back(uint64_t size);

  // Continues at another offset, with no entries. Only after drain().
  void restart(uint64_t end);

 private:
  struct Record {
    uint32_t record_bytes, stored_bytes, n_atoms;
  };
  struct Block {
    bool is_coded = false;  // its records are added to `out`, as they are stored
    uint64_t first = 0;     // the number of its first record
    Buffer in, out;         // records as they were added, and as they are stored
    std::vector<Record> records;
  };

  Block& open_block(size_t room, bool is_coded);
  void push();
  void compress(Block& block) const;
  void append(Block& block);
  static void cut(Block& block, uint64_t n_records);

  io::WritableFile& file_;
  const codec::Codec codec_;
  const int level_;
  uint64_t n_added_ = 0;
  Block open_;  // filled by the caller; no block is open while it has no records
  // Of what is appended: used by the pipeline while tasks are in it, else by the caller.
  std::vector<IndexEntry> entries_;
  uint64_t end_;
  OrderedPipeline<Block> pipeline_;  // the last member: its threads use the others
};

}  // namespace atompack::atp
