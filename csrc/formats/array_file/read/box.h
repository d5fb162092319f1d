// Boxes of elements in an array, and their overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace atompack::array_file {

// Elements start[i] to start[i] + count[i] along each axis, in row-major order. Without axes: one element.
struct Box {
  std::vector<uint64_t> start, count;

  uint64_t n_elements() const;
};

bool contains(const Box& box, const std::vector<uint64_t>& at);

// Intersection of two boxes of equal rank, as a sequence of runs of maximum length.
class Overlap {
 public:
  Overlap(const Box& a, const Box& b);

  bool empty() const { return empty_; }
  uint64_t run() const { return run_; }
  uint64_t in_a() const { return in_a_; }
  uint64_t in_b() const { return in_b_; }
  // Moves to the next run; false at the end.
  bool advance();

 private:
  struct Axis {
    uint64_t count = 0, a_stride = 0, b_stride = 0, position = 0;
  };

  bool empty_ = false;
  uint64_t run_ = 1, in_a_ = 0, in_b_ = 0;
  std::vector<Axis> axes_;  // axes outside of the runs, the innermost last
};

// Calls `copy(element in a, element in b, number of elements)` for each run. Elements are counted within each box.
template <typename Copy>
void for_each_common_run(const Box& a, const Box& b, const Copy& copy) {
  Overlap overlap(a, b);
  if (overlap.empty()) return;
  do {
    copy(overlap.in_a(), overlap.in_b(), overlap.run());
  } while (overlap.advance());
}

}  // namespace atompack::array_file
