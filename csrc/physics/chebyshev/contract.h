// Forces from stored derivatives: F = -sum of W dG over features and atoms, without building dG.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atompack::physics {

// Read-only rows of edges and triplets, as in physics/chebyshev/chebyshev.h.
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

// Row ranges of one or more whole molecules.
struct RowRanges {
  RowRange edges, triplets;
};

// forces (atoms, 3) += contribution of these rows for `weights` (atoms, n_features), the derivative of the energy with
// respect to the features. All atoms of the rows are in range. Rows are added in order.
template <typename Real>
void contract(const DerivativeView<Real>& view, const RowRanges& rows, const Real* weights, Real* forces);

// weights += the transpose of that map applied to `forces`, for autograd.
template <typename Real>
void contract_transposed(const DerivativeView<Real>& view, const RowRanges& rows, const Real* forces, Real* weights);

}  // namespace atompack::physics
