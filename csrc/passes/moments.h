// Running sums from which mean and standard deviation follow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace atompack::collate {

// Finite values only; the others are counted separately. Sums squared distances from the mean instead of squares of the
// values: the squares of total energies would agree in all significant digits.
struct Moments {
  int64_t count = 0;
  int64_t non_finite = 0;
  double mean = 0;
  double scatter = 0;  // sum of (value - mean)^2
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) {
      ++non_finite;
      return;
    }
    ++count;
    const double distance = value - mean;
    mean += distance / static_cast<double>(count);
    scatter += distance * (value - mean);
    low = std::min(low, value);
    high = std::max(high, value);
  }

  void join(const Moments& other) {
    non_finite += other.non_finite;
    if (other.count == 0) return;
    const auto mine = static_cast<double>(count);
    const auto theirs = static_cast<double>(other.count);
    const double distance = other.mean - mean;
    mean += distance * (theirs / (mine + theirs));
    scatter += other.scatter + distance * distance * (mine * theirs / (mine + theirs));
    count += other.count;
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

}  // namespace atompack::collate
