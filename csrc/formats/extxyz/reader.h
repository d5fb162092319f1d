// Frames of an extended XYZ file, a block at a time.
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

// Memory is that of one block, whatever the size of the file. Not thread-safe.
class Reader {
 public:
  explicit Reader(const std::string& path) : Reader(path, path) {}
  // Errors call the file `name`: `path` may be that of a temporary copy.
  Reader(const std::string& path, const std::string& name) : lines_(path), name_(name) {}

  // Values under this key come out as this kind where theirs is narrower: integers as reals, anything of a comment
  // line as the text that stands there. Rows of atoms do not become text.
  void widen(Level level, const std::string& key, Kind kind) { kinds_[{level, key}] = kind; }

  // The next frames, until there are `max_frames` of them or their text has `max_bytes`; at least one. Nothing at the
  // end of the file. Throws CorruptFileError with file, frame and offset, again and again, after the frames before the
  // damage have been handed out.
  std::optional<Block> next_block(int64_t max_frames, uint64_t max_bytes);

  uint64_t bytes_read() const { return lines_.next_offset(); }
  uint64_t file_bytes() const { return lines_.file_bytes(); }
  // At the end: whether the last line has no end, so that a cut in its last word would go unnoticed.
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
