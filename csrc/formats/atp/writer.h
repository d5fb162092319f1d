// Writer that appends molecules to an .atp file and commits them; FORMAT.md#writing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/codec.h"
#include "formats/atp/columns.h"
#include "formats/atp/encoder.h"
#include "formats/atp/header.h"
#include "formats/atp/index.h"
#include "io/file_system.h"
#include "threads/ordered_pipeline.h"

namespace atompack::atp {

// Queue of records that are compressed on threads and appended to a file in order.

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
  threads::OrderedPipeline<Block> pipeline_;  // last member: its threads use the others
};

class Reader;

// State of a file when a writer opens it.
struct WriterState {
  Header header;         // of the newest commit
  uint64_t slot_offset;  // of that header
  RecordRules rules;
};

// Works on a file that no one else writes. After a crash at any time the file opens at the last commit that commit()
// returned from, or at a complete one that was in progress. For one caller at a time.
class Writer {
 public:
  // Creates an empty file: two slots, durable.
  static WriterState create(io::WritableFile& file, codec::Codec codec, int level);

  // `level` applies to new records. Nothing is written before the first molecule or commit. UnsupportedFormatError: the
  // file's generation leaves no room for another commit.
  Writer(io::WritableFile& file, WriterState state, int level, unsigned n_threads);

  // Adds all of these molecules or, if it throws, none. FieldError: they do not fit the file (nothing is written);
  // IoError: writing failed, and the next call retries the molecules of earlier calls.
  void write(std::span<const Columns> runs);

  // Copies records of another file, recompressed only if codec or level differ; damaged ones throw.
  void copy(const Reader& from, std::span<const int64_t> indices);

  // The commit point: when it returns, the molecules are durable. After an IoError the file stays at its last commit
  // and the call can be repeated, unless fsync failed: the state of the file is then unknown, and every later call
  // throws. UnsupportedFormatError, before anything is written, after the last generation.
  void commit();

  bool has_changes() const { return queue_.size() > 0; }
  uint64_t n_molecules() const { return header_.n_molecules + queue_.size(); }
  const Header& header() const { return header_; }

 private:
  void begin();
  uint64_t write_index(uint64_t at);
  Header next_header() const;

  io::WritableFile& file_;
  Header header_;
  uint64_t slot_offset_;
  RecordRules rules_;
  bool tail_is_cut_ = false;
  bool sync_failed_ = false;  // a sync failed
  AppendQueue queue_;
};

}  // namespace atompack::atp
