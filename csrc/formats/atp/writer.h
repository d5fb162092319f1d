// Appends molecules to an .atp file and commits them; FORMAT.md#writing.
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

// Where a file stands when a writer takes it up.
struct WriterState {
  Header header;         // of the newest commit
  uint64_t slot_offset;  // where that lies
  RecordRules rules;
};

// Works on any file that it alone writes. Whatever happens at whatever moment, the file opens at the last commit that
// commit() returned from, or at one that was under way and is complete. For one caller at a time.
class Writer {
 public:
  // Makes an empty file: two slots, durable.
  static WriterState create(io::WritableFile& file, codec::Codec codec, int level);

  // `level` is that of the records to come. Nothing is written before the first molecule or commit.
  // UnsupportedFormatError: the generation of the file leaves no room for another commit.
  Writer(io::WritableFile& file, WriterState state, int level, unsigned n_threads);

  // All of these molecules, or, if it throws, none. FieldError: they do not fit the file (nothing is written); IoError:
  // the file could not take them, and the next call tries again to write those of earlier calls.
  void write(std::span<const Columns> runs);

  // The records of another file as they are, recompressed only where codec or level differ; damaged ones throw.
  void copy(const Reader& from, std::span<const int64_t> indices);

  // The commit point: when it returns, the molecules are durable. After an IoError the file stays at its last commit
  // and the call can be made again, unless the system failed to make written data durable: then nobody knows what it
  // holds, and every later call throws. UnsupportedFormatError, before anything is written, after the last generation.
  void commit();

  bool has_news() const { return queue_.size() > 0; }
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
  bool is_unsure_ = false;  // a sync failed
  AppendQueue queue_;
};

}  // namespace atompack::atp
