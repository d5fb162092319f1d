// Formatter of frames as extended XYZ. The values are views of the caller's memory, in C order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/extxyz/array.h"
#include "model/molecule_source.h"

namespace atompack::extxyz {

struct ArrayView {
  Kind kind = Kind::text;
  std::vector<int64_t> shape;  // of one row, if there are several
  const void* data = nullptr;  // double, int64_t or uint8_t, according to kind
  std::string_view text;       // of kind text
};

// One key at one level. Columns of atoms are never of kind text and have at most one dimension. Keys contain no line
// break, those of columns no colon either.
struct FieldView {
  Level level = Level::molecule;
  std::string key;
  std::span<const uint8_t> present;  // (B,)
  bool stacked = false;
  std::vector<ArrayView> arrays;  // stacked: one; otherwise one per frame of the block
};

struct BlockView {
  std::span<const int64_t> ptr;       // (B + 1,)
  std::span<const double> positions;  // (N, 3)
  std::span<const int64_t> numbers;   // (N,), 0 to 255
  std::span<const double> lattices;   // (B, 3, 3)
  std::span<const uint8_t> has_lattice;
  std::span<const uint8_t> pbc;  // (B, 3)
  std::span<const uint8_t> has_pbc;
  std::vector<FieldView> fields;
};

// Frames are read back with bitwise identical values.
std::string format_block(const BlockView& block);

}  // namespace atompack::extxyz
