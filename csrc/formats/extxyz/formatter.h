// Frames as text. The values come as views of the caller's memory, in C order.
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
  std::vector<int64_t> shape;  // of one row, where there are several
  const void* data = nullptr;  // double, int64_t or uint8_t, as the kind says
  std::string_view text;       // of kind text
};

// As `Field` of block.h. Columns of atoms have no kind text and at most one dimension. Keys have no line break, those
// of columns no colon either.
struct FieldView {
  Level level = Level::molecule;
  std::string key;
  std::span<const uint8_t> present;  // (B,)
  bool stacked = false;
  std::vector<ArrayView> arrays;  // stacked: one; else one for each frame of the block
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

// What a Reader makes of the text is equal bit for bit.
std::string format_block(const BlockView& block);

}  // namespace atompack::extxyz
