// Block of consecutive frames, stored as columns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/extxyz/atom_lines.h"
#include "model/molecule_source.h"

namespace atompack::extxyz {

// One key at one level. If the frames that have it agree in kind and shape, and are not too few, `arrays` is one array
// over the whole block, (B, ...) or (N, ...), with NaN, 0 or empty strings for the frames without it; otherwise, and
// for strings of atoms, one array for each frame that has it.
struct Field {
  Level level = Level::molecule;
  std::string key;
  std::vector<uint8_t> present;  // (B,)
  bool stacked = false;
  std::vector<Array> arrays;
};

struct Block {
  int64_t first_frame = 0;
  std::vector<int64_t> ptr{0};    // (B + 1,)
  std::vector<double> positions;  // (N, 3)
  std::vector<uint8_t> numbers;   // (N,)
  std::vector<double> lattices;   // (B, 3, 3), lattice vectors as rows; NaN if absent
  std::vector<uint8_t> has_lattice;
  std::vector<uint8_t> pbc;  // (B, 3); if absent: true with a lattice, false without
  std::vector<Field> fields;
  int64_t n_plain_comments = 0;  // frames whose comment line has words but no keys
  int64_t n_unnamed_words = 0;   // frames whose atom lines have more words than columns

  int64_t size() const { return static_cast<int64_t>(has_lattice.size()); }
};

// Collects the values of all frames under one key.
class FieldBuilder {
 public:
  FieldBuilder(Level level, std::string key) : level_(level), key_(std::move(key)) {}

  // `rows` are those of the frame's atoms or one value. Frames are added in order.
  void add(int64_t frame, const Array& rows);
  Field finish(std::span<const int64_t> ptr) &&;

 private:
  // Consecutive frames that agree in kind and shape.
  struct Run {
    size_t first_part;
    Kind kind;
    std::vector<int64_t> shape;
  };

  Array stack(std::span<const int64_t> ptr) &&;
  std::vector<Array> split();
  bool stacks(std::span<const int64_t> ptr) const;

  Level level_;
  std::string key_;
  std::vector<int64_t> frames_;
  std::vector<size_t> sizes_;  // number of values of each part
  std::vector<Run> runs_;
  Array values_;  // of all parts; more than one of its vectors may be in use
};

// Each frame is added as a whole or not at all.
class BlockBuilder {
 public:
  explicit BlockBuilder(int64_t first_frame);

  void begin(const FrameHead& head, const Atoms& atoms);
  // Adds to the frame begun last.
  void add(Level level, std::string_view key, const Array& rows);

  int64_t size() const { return block_.size(); }
  // True if frames without common keys would make the block far larger than the file.
  bool is_full() const;
  Block finish() &&;

 private:
  Block block_;
  std::vector<FieldBuilder> fields_;
  std::map<std::pair<Level, std::string>, size_t, std::less<>> places_;
};

}  // namespace atompack::extxyz
