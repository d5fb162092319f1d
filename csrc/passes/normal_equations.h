// Least squares of energies over compositions: energy = sum over elements of count x reference energy.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace atompack::collate {

constexpr size_t kElements = 256;  // atomic numbers are one byte

struct ElementCount {
  uint8_t number;
  int64_t atoms;
};

// Sums over molecules of composition c, energy e and weight w. Absent elements take no memory.
class NormalEquations {
 public:
  void add(std::span<const ElementCount> composition, double energy, double weight);
  void join(const NormalEquations& other);

  std::vector<double> gram() const;                                      // (256, 256) row-major: sum of w c c^T
  const std::array<double, kElements>& right() const { return right_; }  // sum of w c e
  double squares() const { return squares_; }                            // sum of w e^2

 private:
  std::array<std::vector<double>, kElements> rows_;  // of the Gram matrix; empty until the element occurs
  std::array<double, kElements> right_{};
  double squares_ = 0;
};

}  // namespace atompack::collate
