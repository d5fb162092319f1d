// The first two lines of a frame: how many atoms, in which columns, and the values of the frame as a whole.
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
  std::optional<std::array<double, 9>> lattice;  // rows are the lattice vectors, as they stand there
  std::optional<std::array<uint8_t, 3>> pbc;
  std::vector<Entry> entries;     // all others
  uint64_t comment_offset = 0;    // where the comment line begins in the file
  bool comment_is_plain = false;  // it says something, but nothing with a key
};

// Throws CorruptFileError with offsets in the file. Not thread-safe.
class FrameHeadReader {
 public:
  // Nothing at the end of the file. Valid until the next call.
  const FrameHead* next(LineReader& lines);

 private:
  void read_comment(std::string_view line);
  void set_layout(const std::optional<std::string>& properties);

  FrameHead head_;
  std::optional<std::string> properties_;  // that the layout was made from, as most frames have the same; absent: none
};

}  // namespace atompack::extxyz
