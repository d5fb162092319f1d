// Forces from stored derivatives: F = -sum of W dG over features and atoms, without dG ever being built.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atompack::physics {

// Rows of edges and triplets as physics/chebyshev/local_derivatives.h has them, read only.
template <typename Real>
struct DerivativeView {
  const int64_t *radial_center, *radial_neighbor;
  const Real* radial_grads;  // (E, n_radial, 3)
  const Real* radial_spin;   // (E); null for one species
  const int64_t *angular_center, *angular_j, *angular_k;
  const Real *grads_i, *grads_j, *grads_k;  // (T, n_angular, 3)
  const Real* angular_spin;                 // (T); null for one species
  size_t n_radial, n_angular;

  bool multi() const { return radial_spin != nullptr; }
  size_t n_features() const { return (n_radial + n_angular) * (multi() ? 2 : 1); }
};

struct RowRange {
  size_t first, last;
};

// The rows of one or more whole molecules.
struct RowRanges {
  RowRange edges, triplets;
};

// forces (atoms, 3) += what these rows give for `weights` (atoms, n_features), the derivative of the energy with
// respect to the features. All atoms that the rows name are there. Rows are added in order.
template <typename Real>
void contract(const DerivativeView<Real>& view, const RowRanges& rows, const Real* weights, Real* forces);

// weights += the transpose of that map, applied to `forces`: what autograd takes back through it.
template <typename Real>
void contract_transposed(const DerivativeView<Real>& view, const RowRanges& rows, const Real* forces, Real* weights);

}  // namespace atompack::physics
