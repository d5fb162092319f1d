// Atom lines of a frame, split into the columns of its layout.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/extxyz/frame_head.h"

namespace atompack::extxyz {

struct Atoms {
  std::vector<double> positions;  // (n, 3)
  std::vector<uint8_t> numbers;   // (n,)
  std::vector<Array> columns;     // one per column of the layout, (n, width); only those of fields are used
  std::vector<bool> is_field;     // per column of the layout
  bool has_unnamed_words = false;
};

// The most atom lines that the rest of the text can hold: each word takes a byte and a separator.
uint64_t max_atom_lines(const LineReader& lines, const Layout& layout);

// `atoms` keeps its memory from frame to frame. Throws CorruptFileError with offsets in the file.
void read_atoms(LineReader& lines, const FrameHead& head, Atoms& atoms);

}  // namespace atompack::extxyz
