// First two lines of a frame: number of atoms, columns, and the values of the whole frame.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/extxyz/comment_line.h"
#include "formats/extxyz/line_reader.h"
#include "formats/extxyz/properties.h"

namespace atompack::extxyz {

struct FrameHead {
  int64_t n_atoms = 0;
  Layout layout;
  std::optional<std::array<double, 9>> lattice;  // rows are the lattice vectors, as written in the file
  std::optional<std::array<uint8_t, 3>> pbc;
  std::vector<Entry> entries;     // all other entries
  uint64_t comment_offset = 0;    // offset of the comment line in the file
  bool comment_is_plain = false;  // the line is not empty but has no keys
};

// Reads the number of atoms of the next frame; nullopt at the end of the file.
std::optional<int64_t> next_count(LineReader& lines);

// Throws CorruptFileError with offsets in the file. Not thread-safe.
class FrameHeadReader {
 public:
  // The head of a frame whose comment line is here. Valid until the next call.
  const FrameHead& parse(int64_t n_atoms, std::string_view comment, uint64_t comment_offset);
  // Returns nullptr at the end of the file. Valid until the next call.
  const FrameHead* next(LineReader& lines);

 private:
  void read_comment(std::string_view line);
  void set_layout(const std::optional<std::string>& properties);

  FrameHead head_;
  // source of the cached layout, since most frames have the same; nullopt: none
  std::optional<std::string> properties_;
};

}  // namespace atompack::extxyz
