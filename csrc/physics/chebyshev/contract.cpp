#include "physics/chebyshev/contract.h"

#include <array>
#include <vector>

namespace atompack::physics {
namespace {

template <typename Real>
using Triple = std::array<Real, 3>;

// Feature columns of one atom for one kind of row: unweighted, and weighted by spins.
template <typename Real>
struct Columns {
  Real *plain, *of_spins;
  size_t n;
};

template <typename Real, typename Value>
Columns<Value> radial_of(const DerivativeView<Real>& view, Value* all, int64_t atom) {
  Value* const first = all + static_cast<size_t>(atom) * view.n_features();
  return {first, view.multi() ? first + view.n_radial + view.n_angular : nullptr, view.n_radial};
}

template <typename Real, typename Value>
Columns<Value> angular_of(const DerivativeView<Real>& view, Value* all, int64_t atom) {
  Columns<Value> columns = radial_of(view, all, atom);
  columns.plain += view.n_radial;
  if (view.multi()) columns.of_spins += view.n_radial;
  columns.n = view.n_angular;
  return columns;
}

// Weight of each number of a row; `room` is the memory for them.
template <typename Real>
const Real* combine(const Columns<const Real>& columns, Real spin, std::vector<Real>& room) {
  if (columns.of_spins == nullptr) return columns.plain;
  for (size_t i = 0; i < columns.n; ++i) room[i] = columns.plain[i] + spin * columns.of_spins[i];
  return room.data();
}

template <typename Real>
void spread(const std::vector<Real>& sums, Real spin, const Columns<Real>& columns) {
  for (size_t i = 0; i < columns.n; ++i) columns.plain[i] += sums[i];
  if (columns.of_spins == nullptr) return;
  for (size_t i = 0; i < columns.n; ++i) columns.of_spins[i] += spin * sums[i];
}

// The sum of v_n G_n.
template <typename Real>
Triple<Real> weighted_sum(const Real* v, const Real* grads, size_t n) {
  Real x = 0, y = 0, z = 0;
  for (size_t i = 0; i < n; ++i) {
    x += v[i] * grads[3 * i];
    y += v[i] * grads[3 * i + 1];
    z += v[i] * grads[3 * i + 2];
  }
  return {x, y, z};
}

template <typename Real>
Real product(const Real* grad, const Triple<Real>& force) {
  return grad[0] * force[0] + grad[1] * force[1] + grad[2] * force[2];
}

template <typename Real>
void subtract(const Triple<Real>& sum, int64_t atom, Real* forces) {
  Real* const to = forces + 3 * static_cast<size_t>(atom);
  for (size_t axis = 0; axis < 3; ++axis) to[axis] -= sum[axis];
}

template <typename Real>
Triple<Real> force_on(int64_t atom, const Real* forces) {
  const Real* const from = forces + 3 * static_cast<size_t>(atom);
  return {from[0], from[1], from[2]};
}

}  // namespace

template <typename Real>
void contract(const DerivativeView<Real>& view, const RowRanges& rows, const Real* weights, Real* forces) {
  std::vector<Real> room(view.n_radial);
  for (size_t row = rows.edges.first; row < rows.edges.last; ++row) {
    const int64_t center = view.radial_center[row];
    const Real spin = view.multi() ? view.radial_spin[row] : Real{};
    const Real* const v = combine(radial_of(view, weights, center), spin, room);
    const Triple<Real> sum = weighted_sum(v, view.radial_grads + row * view.n_radial * 3, view.n_radial);
    subtract(sum, view.radial_neighbor[row], forces);
    subtract({-sum[0], -sum[1], -sum[2]}, center, forces);
  }
  room.resize(view.n_angular);
  for (size_t row = rows.triplets.first; row < rows.triplets.last; ++row) {
    const int64_t center = view.angular_center[row];
    const Real spin = view.multi() ? view.angular_spin[row] : Real{};
    const Real* const v = combine(angular_of(view, weights, center), spin, room);
    const size_t first = row * view.n_angular * 3;
    subtract(weighted_sum(v, view.grads_i + first, view.n_angular), center, forces);
    subtract(weighted_sum(v, view.grads_j + first, view.n_angular), view.angular_j[row], forces);
    subtract(weighted_sum(v, view.grads_k + first, view.n_angular), view.angular_k[row], forces);
  }
}

template <typename Real>
void contract_transposed(const DerivativeView<Real>& view, const RowRanges& rows, const Real* forces, Real* weights) {
  std::vector<Real> sums(view.n_radial);
  for (size_t row = rows.edges.first; row < rows.edges.last; ++row) {
    const int64_t center = view.radial_center[row];
    Triple<Real> force = force_on(center, forces);
    subtract(force_on(view.radial_neighbor[row], forces), 0, force.data());
    const Real* const grads = view.radial_grads + row * view.n_radial * 3;
    for (size_t n = 0; n < sums.size(); ++n) sums[n] = product(grads + 3 * n, force);
    spread(sums, view.multi() ? view.radial_spin[row] : Real{}, radial_of(view, weights, center));
  }
  sums.resize(view.n_angular);
  for (size_t row = rows.triplets.first; row < rows.triplets.last; ++row) {
    const int64_t center = view.angular_center[row];
    const Triple<Real> force_i = force_on(center, forces), force_j = force_on(view.angular_j[row], forces),
                       force_k = force_on(view.angular_k[row], forces);
    const size_t first = row * view.n_angular * 3;
    const Real *grads_i = view.grads_i + first, *grads_j = view.grads_j + first, *grads_k = view.grads_k + first;
    for (size_t n = 0; n < sums.size(); ++n) {
      sums[n] =
          -(product(grads_i + 3 * n, force_i) + product(grads_j + 3 * n, force_j) + product(grads_k + 3 * n, force_k));
    }
    spread(sums, view.multi() ? view.angular_spin[row] : Real{}, angular_of(view, weights, center));
  }
}

template void contract(const DerivativeView<float>&, const RowRanges&, const float*, float*);
template void contract(const DerivativeView<double>&, const RowRanges&, const double*, double*);
template void contract_transposed(const DerivativeView<float>&, const RowRanges&, const float*, float*);
template void contract_transposed(const DerivativeView<double>&, const RowRanges&, const double*, double*);

}  // namespace atompack::physics
