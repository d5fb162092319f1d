// Writer that appends molecules to an .atp file and commits them; FORMAT.md#writing.
#pragma once

#include <memory>
#include <span>

#include "formats/atp/append_queue.h"
#include "formats/atp/encoder.h"
#include "formats/atp/header.h"
#include "io/writable_file.h"
#include "model/columns.h"

namespace atompack::atp {

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
