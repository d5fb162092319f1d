#include "passes/normal_equations.h"

#include <algorithm>

namespace atompack::collate {

void NormalEquations::add(std::span<const ElementCount> composition, double energy, double weight) {
  for (const ElementCount& element : composition) {
    std::vector<double>& row = rows_[element.number];
    if (row.empty()) row.resize(kElements);
    const double weighted = weight * static_cast<double>(element.atoms);
    for (const ElementCount& other : composition) row[other.number] += weighted * static_cast<double>(other.atoms);
    right_[element.number] += weighted * energy;
  }
  squares_ += weight * energy * energy;
}

void NormalEquations::join(const NormalEquations& other) {
  for (size_t i = 0; i < kElements; ++i) {
    if (other.rows_[i].empty()) continue;
    if (rows_[i].empty()) rows_[i].resize(kElements);
    for (size_t j = 0; j < kElements; ++j) rows_[i][j] += other.rows_[i][j];
    right_[i] += other.right_[i];
  }
  squares_ += other.squares_;
}

std::vector<double> NormalEquations::gram() const {
  std::vector<double> all(kElements * kElements);
  for (size_t i = 0; i < kElements; ++i) {
    std::ranges::copy(rows_[i], all.begin() + static_cast<std::ptrdiff_t>(i * kElements));
  }
  return all;
}

}  // namespace atompack::collate
