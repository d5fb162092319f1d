// Chebyshev polynomials of many arguments at once.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace atompack::physics {

// T_n(x) for n = 0..order and their derivatives, for up to kColumns arguments: one row per n, so that a step of the
// recurrence is a loop over adjacent doubles. For one thread.
class ChebyshevBlock {
 public:
  static constexpr size_t kColumns = 64;

  explicit ChebyshevBlock(size_t order);

  // Arguments and their weights in the sums, all finite; `x` within [-1, 1].
  std::array<double, kColumns> x{}, weight{}, spin_weight{};

  // Computes the rows for the first `n_columns` arguments.
  void evaluate(size_t n_columns);

  // Computes the rows of the derivatives. Near x = 1 and -1 they are damped as in aenet: if the sine of arccos x is
  // below 1e-5, they are divided by 1e-5 instead.
  void differentiate();

  const double* values(size_t n) const { return &values_[n * kColumns]; }
  const double* slopes(size_t n) const { return &slopes_[n * kColumns]; }

  // sum[n] += weighted sum of T_n over the arguments. The order of additions depends only on the number of columns.
  void add_sums(double* sum) const { add_weighted(weight, sum); }
  void add_spin_sums(double* sum) const { add_weighted(spin_weight, sum); }

 private:
  using Columns = std::array<double, kColumns>;
  void add_weighted(const Columns& weights, double* sum) const;

  size_t n_rows_;
  size_t n_filled_ = 0, n_padded_ = 0;
  std::vector<double> values_, slopes_;
  Columns current_{}, previous_{};  // U_n and U_n-1
};

}  // namespace atompack::physics
