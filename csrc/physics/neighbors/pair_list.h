// Growing memory for the neighbor pairs of several structures, one after the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "physics/neighbors/columns.h"

namespace atompack::physics {

// A neighbor as seen from one of the two atoms: r_j - r_i + S cell points to it.
struct Shift {
  float cells[3];  // S, integers
};
struct Vector {
  double xyz[3];

  double length() const { return std::sqrt(xyz[0] * xyz[0] + xyz[1] * xyz[1] + xyz[2] * xyz[2]); }
};

// Pairs of a structure are sorted by i; atoms are numbered within their structure.
struct PairList {
  Column<uint32_t> i, j;
  Column<Shift> shifts;
  Column<Vector> vectors;    // empty unless requested
  std::vector<size_t> ends;  // per structure: the number of pairs up to its end

  size_t size() const { return ends.empty() ? 0 : ends.back(); }

  // Keeps its memory.
  void clear() {
    i.clear();
    j.clear();
    shifts.clear();
    vectors.clear();
    ends.clear();
  }
};

}  // namespace atompack::physics
