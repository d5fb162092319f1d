// The lines of a frame's atoms, as the columns that its layout names.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/extxyz/frame_head.h"

namespace atompack::extxyz {

struct Atoms {
  std::vector<double> positions;  // (n, 3)
  std::vector<uint8_t> numbers;   // (n,)
  std::vector<Array> columns;     // one for each of the layout's, (n, width); in use: those that hold a field
  std::vector<bool> is_field;     // the same
  bool has_unnamed_words = false;
};

// `atoms` keeps its memory from frame to frame. Throws CorruptFileError with offsets in the file.
void read_atoms(LineReader& lines, const FrameHead& head, Atoms& atoms);

}  // namespace atompack::extxyz
