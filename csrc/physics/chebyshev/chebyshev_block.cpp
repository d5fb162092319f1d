#include "physics/chebyshev/chebyshev_block.h"

#include <algorithm>
#include <cmath>

namespace atompack::physics {
namespace {

// Loops run over multiples of this many columns, so that the compiler needs no remainder loop.
constexpr size_t kLanes = 8;

constexpr double kMinSine = 1e-5;

}  // namespace

ChebyshevBlock::ChebyshevBlock(size_t order)
    : n_rows_(order + 1), values_(n_rows_ * kColumns, 1.0), slopes_(n_rows_ * kColumns, 0.0) {}

void ChebyshevBlock::evaluate(size_t n_columns) {
  n_filled_ = n_columns;
  n_padded_ = (n_columns + kLanes - 1) / kLanes * kLanes;
  for (size_t t = n_filled_; t < n_padded_; ++t) x[t] = weight[t] = spin_weight[t] = 0;
  if (n_rows_ == 1) return;
  std::copy_n(x.begin(), n_padded_, &values_[kColumns]);
  for (size_t n = 2; n < n_rows_; ++n) {
    double* const to = &values_[n * kColumns];
    const double *const one = to - kColumns, *const two = one - kColumns;
    for (size_t t = 0; t < n_padded_; ++t) to[t] = 2 * x[t] * one[t] - two[t];
  }
}

// T_n' = n U_n-1. The recurrence of U is linear: damping its start values damps all terms.
void ChebyshevBlock::differentiate() {
  for (size_t t = 0; t < n_padded_; ++t) {
    const double square = (1 - x[t]) * (1 + x[t]);
    current_[t] = 1;
    previous_[t] = 0;
    if (square < kMinSine * kMinSine) [[unlikely]]
      current_[t] = std::sqrt(std::max(square, 0.0)) / kMinSine;
  }
  for (size_t n = 1; n < n_rows_; ++n) {
    double* const to = &slopes_[n * kColumns];
    const auto factor = static_cast<double>(n);
    for (size_t t = 0; t < n_padded_; ++t) {
      const double next = 2 * x[t] * current_[t] - previous_[t];
      to[t] = factor * current_[t];
      previous_[t] = current_[t];
      current_[t] = next;
    }
  }
}

void ChebyshevBlock::add_weighted(const Columns& weights, double* sum) const {
  for (size_t n = 0; n < n_rows_; ++n) {
    const double* const row = values(n);
    std::array<double, kLanes> lanes{};
    for (size_t t = 0; t < n_padded_; t += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += row[t + lane] * weights[t + lane];
    }
    sum[n] += ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  }
}

}  // namespace atompack::physics
