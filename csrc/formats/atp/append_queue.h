// Queue of records that are compressed on threads and appended to a file in order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "codec/codec.h"
#include "formats/atp/index.h"
#include "io/writable_file.h"
#include "threads/ordered_pipeline.h"

namespace atompack::atp {

// Memory is bounded: adding records blocks while too many are queued. A write error stops the queue and is thrown by
// the next call that waits for it; no record is lost, and resume() tries again. For one caller at a time.
class AppendQueue {
 public:
  // Appends from offset `end` on, with `n_threads` compressing and writing.
  AppendQueue(io::WritableFile& file, codec::Codec codec, int level, uint64_t end, unsigned n_threads);

  // Returns memory for one more record, to be filled before the next call.
  std::byte* add(uint32_t record_bytes, uint32_t n_atoms);
  // Adds an already compressed record.
  void add_stored(Bytes stored, uint32_t record_bytes, uint32_t n_atoms);

  // Returns once all records are in the file (not durable yet).
  void drain();

  // Clears a write error, so that the next call tries again.
  void resume() { pipeline_.resume(); }

  // The number of records since the last restart(); entries() are valid after drain().
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
    bool is_coded = false;  // its records are compressed already and added to `out`
    uint64_t first = 0;     // number of its first record
    Buffer in, out;         // records as added, and as stored
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
  Block open_;  // filled by the caller; a block without records is not open
  // Entries of appended records: used by the pipeline while tasks are in it, otherwise by the caller.
  std::vector<IndexEntry> entries_;
  uint64_t end_;
  OrderedPipeline<Block> pipeline_;  // last member: its threads use the others
};

}  // namespace atompack::atp
