// Reader of extended XYZ files, one block of frames at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>

#include "formats/extxyz/block.h"
#include "formats/extxyz/frame_head.h"
#include "formats/extxyz/line_reader.h"

namespace atompack::extxyz {

// Memory is limited to one block, regardless of the size of the file. Not thread-safe.
class Reader {
 public:
  explicit Reader(const std::string& path) : Reader(path, path) {}
  // Errors name the file `name`: `path` may be that of a temporary copy.
  Reader(const std::string& path, const std::string& name) : lines_(path), name_(name) {}

  // Values under this key are converted to this kind if theirs is narrower: integers to reals, anything in a comment
  // line to the string as written. Rows of atoms are not converted to strings.
  void widen(Level level, const std::string& key, Kind kind) { kinds_[{level, key}] = kind; }

  // Returns the next frames, until there are `max_frames` of them or they took `max_bytes` of the file; at least one.
  // nullopt at the end of the file. Throws CorruptFileError with file, frame and offset, on every call, after the
  // frames before the damage have been returned.
  std::optional<Block> next_block(int64_t max_frames, uint64_t max_bytes);

  uint64_t bytes_read() const { return lines_.next_offset(); }
  uint64_t file_bytes() const { return lines_.file_bytes(); }
  // At the end of the file: true if the last line has no line end, so that a cut in its last word would go unnoticed.
  bool ends_open() const { return lines_.ends_open(); }

 private:
  bool read_frame(BlockBuilder& block);
  bool try_frame(BlockBuilder& block);
  void add_entries(const FrameHead& head, BlockBuilder& block);
  void add_columns(const FrameHead& head, BlockBuilder& block);

  LineReader lines_;
  std::string name_;
  FrameHeadReader heads_;
  Atoms atoms_;
  Array value_;
  std::map<std::pair<Level, std::string>, Kind> kinds_;
  int64_t frame_ = 0;
  std::exception_ptr damage_;
};

}  // namespace atompack::extxyz
