// Writer by path: opens, locks and publishes the file that it writes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "formats/atp/writer.h"
#include "io/locked_file.h"

namespace atompack::atp {

// create: the path must not exist; an empty file is created immediately. replace: the first commit publishes a new file
// instead of the one that existed when the writer was opened, and of no other. append: continues an existing file or
// creates one.
enum class OpenMode : uint8_t { create, replace, append };

constexpr Names<3> names_of(OpenMode) { return {"mode", {"x", "w", "a"}}; }

// Thread-safe: calls are serialized. In a forked child every call fails and the parent's file is not touched.
class PathWriter {
 public:
  // `codec` nullopt: the file's own when appending (with its level), otherwise none. `n_threads`: maximum number of
  // compression threads; 0: one per core, at most 16.
  PathWriter(const std::string& path, OpenMode mode, std::optional<codec::Codec> codec, int level,
             unsigned n_threads = 0);
  // Drops uncommitted records.
  ~PathWriter();

  void write(std::span<const Columns> runs);
  void copy(const Reader& from, std::span<const int64_t> indices);
  // Commits new records, if any. `publish` false: an unpublished file stays unpublished.
  void commit(bool publish);
  // Commits, and releases the file.
  void close();
  // Releases the file as of the last commit. A file that this writer created and never committed to is removed.
  void discard();

  bool is_open() const { return writer_ != nullptr; }
  uint64_t n_molecules() const;
  codec::Codec codec() const;
  // Current path of the file: a hidden name before it is published.
  std::string present_path() const;

 private:
  void create(codec::Codec codec, int level);
  void append(std::optional<codec::Codec> codec, int level);
  void publish_empty();
  void start(WriterState state, int level);
  std::unique_lock<std::mutex> use() const;
  void commit_now(bool publish);
  bool has_commit() const;
  void release_file();

  const std::string path_;
  const int64_t owner_;
  const unsigned n_threads_;
  mutable std::mutex mutex_;
  std::unique_ptr<io::LockedFile> replaced_;  // kept locked until it is replaced
  std::unique_ptr<io::LockedFile> file_;
  std::unique_ptr<Writer> writer_;
  bool created_ = false;  // by this writer, under its final name
};

}  // namespace atompack::atp
