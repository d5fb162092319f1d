// Boxes of elements in an array, and where two of them overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace atompack::array_file {

// Elements start[i] to start[i] + count[i] along each axis, in row-major order. No axes: one element.
struct Box {
  std::vector<uint64_t> start, count;

  uint64_t n_elements() const;
};

bool contains(const Box& box, const std::vector<uint64_t>& at);

// What two boxes of one rank have in common, walked over in runs as long as can be.
class Overlap {
 public:
  Overlap(const Box& a, const Box& b);

  bool empty() const { return empty_; }
  uint64_t run() const { return run_; }
  uint64_t in_a() const { return in_a_; }
  uint64_t in_b() const { return in_b_; }
  // The next run; false behind the last.
  bool advance();

 private:
  struct Axis {
    uint64_t count = 0, a_stride = 0, b_stride = 0, position = 0;
  };

  bool empty_ = false;
  uint64_t run_ = 1, in_a_ = 0, in_b_ = 0;
  std::vector<Axis> axes_;  // those outside of the runs, the innermost last
};

// Calls `copy(a's element, b's element, how many)` for each run. Elements are counted within each box.
template <typename Copy>
void for_each_common_run(const Box& a, const Box& b, const Copy& copy) {
  Overlap overlap(a, b);
  if (overlap.empty()) return;
  do {
    copy(overlap.in_a(), overlap.in_b(), overlap.run());
  } while (overlap.advance());
}

}  // namespace atompack::array_file
