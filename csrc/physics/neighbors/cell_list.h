// Cell list: space divided into boxes, so that the neighbors of an atom are in the boxes around its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/pair_list.h"
#include "threads/chunked_loops.h"

namespace atompack::physics {

// Boxes along a lattice's normals. Those along the last normal are numbered consecutively and are narrow, so that all
// boxes near a box form few ranges of numbers.
class Boxes {
 public:
  struct Side {
    double first, length;
    double reach;  // distance within which images are neighbors
  };
  explicit Boxes(const std::array<Side, 3>& sides);

  // Contribution of one coordinate to a box's number, which is the sum of the three.
  uint64_t share(size_t direction, double x) const {
    const Cut& cut = cuts_[direction];
    const double box = (x - cut.first) * cut.per_length;
    const double inside = box > 0 ? (box < cut.last ? box : cut.last) : 0;
    return cut.offset + cut.stride * static_cast<uint64_t>(inside);
  }

  // Offsets from a box's number to the start of each range around it; each is row_length() boxes long.
  std::span<const int64_t> rows() const { return std::span(rows_).first(n_rows_); }
  static constexpr uint64_t row_length() { return 2 * kNarrow + 1; }

  // Upper bound of all numbers, including those of the ranges.
  uint64_t n_numbers() const { return n_numbers_; }

 private:
  static constexpr uint64_t kNarrow = 8;  // boxes per reach, along the last normal

  struct Cut {
    double first = 0, per_length = 0;
    double last = 0;  // number of the last box
    uint64_t stride = 1, offset = 0;
  };
  std::array<Cut, 3> cuts_;
  std::array<int64_t, 9> rows_{};
  size_t n_rows_ = 0;
  uint64_t n_numbers_ = 0;
};

// Items sorted by the number of their box.
class BoxOrder {
 public:
  // All numbers are below `n_numbers`. Items of one box stay in order.
  void sort(std::span<const uint64_t> numbers, uint64_t n_numbers, const threads::ChunkedLoops& loops = {});

  // The place of each item in the order.
  std::span<const uint32_t> places() const { return places_; }

  // The place of the first item in this box or a later one.
  size_t first(uint64_t number) const { return is_dense_ ? firsts_[number] : search(number); }

 private:
  void count(std::span<const uint64_t> numbers, uint64_t n_numbers, const threads::ChunkedLoops& loops);
  void compare(std::span<const uint64_t> numbers);
  size_t search(uint64_t number) const;

  bool is_dense_ = true;
  Column<uint32_t> places_;
  Column<uint32_t> firsts_;                              // if dense: by box number
  Column<uint32_t> next_;                                // if dense: by chunk and box number, the next free place
  std::vector<std::pair<uint64_t, uint32_t>> in_order_;  // if not dense: box number and item
};

}  // namespace atompack::physics
