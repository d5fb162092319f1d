// A writer by path: opens, locks and publishes the file that it writes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "formats/atp/writer.h"
#include "io/locked_file.h"

namespace atompack::atp {

// create: nothing stands at the path; an empty file does at once. replace: a new file takes the name with the first
// commit, from what stood there when it was opened, and from nothing else. append: goes on with what is there, or
// creates it.
enum class OpenMode : uint8_t { create, replace, append };

// Thread-safe: one call after the other. In a forked child every call fails, and the parent's file is left alone.
class PathWriter {
 public:
  // `codec` absent: the file's own when appending (with its level), else none. At most `n_threads` compress; 0: as many
  // as there are cores, up to 16.
  PathWriter(const std::string& path, OpenMode mode, std::optional<codec::Codec> codec, int level,
             unsigned n_threads = 0);
  PathWriter(const PathWriter&) = delete;
  PathWriter& operator=(const PathWriter&) = delete;
  // What was not committed is dropped.
  ~PathWriter();

  void write(std::span<const Columns> runs);
  void copy(const Reader& from, std::span<const int64_t> indices);
  // Commits what is new, if anything is. `publish` false: a file that has no name yet gets none.
  void commit(bool publish);
  // Commits, and lets the file go.
  void close();
  // Lets the file go as it was at the last commit. One that this writer created and never committed is removed.
  void discard();

  bool is_open() const { return writer_ != nullptr; }
  uint64_t n_molecules() const;
  codec::Codec codec() const;
  // Where the file can be read now: not under its own name before it is published.
  std::string present_path() const;

 private:
  void create(codec::Codec codec, int level);
  void append(std::optional<codec::Codec> codec, int level);
  void publish_empty();
  void start(WriterState state, int level);
  std::unique_lock<std::mutex> use() const;
  void commit_now(bool publish);
  bool has_commit() const;
  void let_go();

  const std::string path_;
  const int64_t owner_;
  const unsigned n_threads_;
  mutable std::mutex mutex_;
  std::unique_ptr<io::LockedFile> replaced_;  // kept locked until it is gone
  std::unique_ptr<io::LockedFile> file_;
  std::unique_ptr<Writer> writer_;
  bool created_ = false;  // by this writer, under its own name
};

}  // namespace atompack::atp
