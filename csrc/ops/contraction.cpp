#include "ops/contraction.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/error.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::ops {
namespace {

using collate::items_of;

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

// forces (atoms, 3) += contribution of these rows for `weights` (atoms, n_features), the derivative of the energy with
// respect to the features. All atoms of the rows are in range. Rows are added in order.
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

// weights += the transpose of that map applied to `forces`, for autograd.
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

// Smaller inputs take less time than waking a thread.
constexpr int64_t kMinBytes = 128 * 1024;

int64_t order_of(const at::Tensor& grads, const char* name) {
  if (grads.dim() != 3) throw FieldError(cat(name, ": expected three dimensions, got ", grads.dim())).at_field(name);
  return grads.size(1);
}

// Requires matching types and shapes; returns contiguous tensors.
DerivativeTensors check_tensors(const DerivativeTensors& rows, at::ScalarType type) {
  const int64_t n_edges = rows.radial_center.numel(), n_triplets = rows.angular_center.numel();
  const int64_t n_radial = order_of(rows.radial_grads, "radial_dG_drij");
  const int64_t n_angular = order_of(rows.grads_i, "angular_grads_i");
  collate::expect_tensor(rows.radial_center, "radial_center_idx", at::kLong, {n_edges});
  collate::expect_tensor(rows.radial_neighbor, "radial_neighbor_idx", at::kLong, {n_edges});
  collate::expect_tensor(rows.radial_grads, "radial_dG_drij", type, {n_edges, n_radial, 3});
  collate::expect_tensor(rows.angular_center, "angular_center_idx", at::kLong, {n_triplets});
  collate::expect_tensor(rows.angular_j, "angular_neighbor_j_idx", at::kLong, {n_triplets});
  collate::expect_tensor(rows.angular_k, "angular_neighbor_k_idx", at::kLong, {n_triplets});
  collate::expect_tensor(rows.grads_i, "angular_grads_i", type, {n_triplets, n_angular, 3});
  collate::expect_tensor(rows.grads_j, "angular_grads_j", type, {n_triplets, n_angular, 3});
  collate::expect_tensor(rows.grads_k, "angular_grads_k", type, {n_triplets, n_angular, 3});
  if (rows.radial_spin.has_value() != rows.angular_spin.has_value()) {
    throw FieldError("typespin: expected both edge and triplet fields, or neither, got one");
  }
  if (rows.radial_spin) collate::expect_tensor(*rows.radial_spin, "radial_neighbor_typespin", type, {n_edges});
  if (rows.angular_spin) collate::expect_tensor(*rows.angular_spin, "angular_triplet_typespin", type, {n_triplets});
  DerivativeTensors all = rows;
  for (at::Tensor* tensor : {&all.radial_center, &all.radial_neighbor, &all.radial_grads, &all.angular_center,
                             &all.angular_j, &all.angular_k, &all.grads_i, &all.grads_j, &all.grads_k}) {
    *tensor = collate::in_plain_memory(*tensor);
  }
  if (all.radial_spin) all.radial_spin = collate::in_plain_memory(*all.radial_spin);
  if (all.angular_spin) all.angular_spin = collate::in_plain_memory(*all.angular_spin);
  return all;
}

template <typename Real>
DerivativeView<Real> view_of(const DerivativeTensors& rows) {
  return {.radial_center = rows.radial_center.const_data_ptr<int64_t>(),
          .radial_neighbor = rows.radial_neighbor.const_data_ptr<int64_t>(),
          .radial_grads = rows.radial_grads.const_data_ptr<Real>(),
          .radial_spin = rows.radial_spin ? rows.radial_spin->const_data_ptr<Real>() : nullptr,
          .angular_center = rows.angular_center.const_data_ptr<int64_t>(),
          .angular_j = rows.angular_j.const_data_ptr<int64_t>(),
          .angular_k = rows.angular_k.const_data_ptr<int64_t>(),
          .grads_i = rows.grads_i.const_data_ptr<Real>(),
          .grads_j = rows.grads_j.const_data_ptr<Real>(),
          .grads_k = rows.grads_k.const_data_ptr<Real>(),
          .angular_spin = rows.angular_spin ? rows.angular_spin->const_data_ptr<Real>() : nullptr,
          .n_radial = static_cast<size_t>(rows.radial_grads.size(1)),
          .n_angular = static_cast<size_t>(rows.grads_i.size(1))};
}

struct CenterRange {
  int64_t first, last;
};

const int64_t* find_outside(std::span<const int64_t> all, RowRange rows, CenterRange atoms) {
  const auto some = all.subspan(rows.first, rows.last - rows.first);
  const auto is_outside = [&](int64_t atom) { return atom < atoms.first || atom >= atoms.last; };
  // Counts without branches: almost always there are none.
  if (std::ranges::count_if(some, is_outside) == 0) return nullptr;
  return &*std::ranges::find_if(some, is_outside);
}

// Visits the index columns with their row ranges.
template <typename Visit>
void for_each_index(const DerivativeTensors& rows, const RowRanges& ranges, const Visit& visit) {
  visit("radial_center_idx", items_of<int64_t>(rows.radial_center), ranges.edges);
  visit("radial_neighbor_idx", items_of<int64_t>(rows.radial_neighbor), ranges.edges);
  visit("angular_center_idx", items_of<int64_t>(rows.angular_center), ranges.triplets);
  visit("angular_neighbor_j_idx", items_of<int64_t>(rows.angular_j), ranges.triplets);
  visit("angular_neighbor_k_idx", items_of<int64_t>(rows.angular_k), ranges.triplets);
}

bool are_inside(const DerivativeTensors& rows, const RowRanges& ranges, CenterRange atoms) {
  bool inside = true;
  for_each_index(rows, ranges, [&](const char*, std::span<const int64_t> all, RowRange some) {
    inside = inside && find_outside(all, some, atoms) == nullptr;
  });
  return inside;
}

void check_inside(const DerivativeTensors& rows, const RowRanges& ranges, int64_t n_atoms) {
  for_each_index(rows, ranges, [&](const char* name, std::span<const int64_t> all, RowRange some) {
    const int64_t* const wrong = find_outside(all, some, {0, n_atoms});
    if (wrong == nullptr) return;
    throw FieldError(cat(name, ": expected atoms from 0 to below ", n_atoms, ", got ", *wrong)).at_field(name);
  });
}

// Rows with centers in [first, last); centers are ascending.
RowRange rows_between(std::span<const int64_t> centers, CenterRange atoms) {
  const auto place = [&](int64_t atom) {
    return static_cast<size_t>(std::ranges::lower_bound(centers, atom) - centers.begin());
  };
  return {place(atoms.first), place(atoms.last)};
}

// Rows of whole molecules in ranges that share no atom and can run concurrently; one range if the rows cannot be split.
std::vector<RowRanges> cut(const DerivativeTensors& rows, std::span<const int64_t> ptr, int64_t n_atoms,
                           int64_t n_ranges) {
  const RowRanges whole{{0, static_cast<size_t>(rows.radial_center.numel())},
                        {0, static_cast<size_t>(rows.angular_center.numel())}};
  std::vector<RowRanges> ranges;
  int64_t first = 0;
  for (int64_t range = 1; range <= n_ranges && n_ranges > 1; ++range) {
    const int64_t last = range == n_ranges ? n_atoms : *std::ranges::lower_bound(ptr, n_atoms * range / n_ranges);
    ranges.push_back({rows_between(items_of<int64_t>(rows.radial_center), {first, last}),
                      rows_between(items_of<int64_t>(rows.angular_center), {first, last})});
    if (!are_inside(rows, ranges.back(), {first, last})) {
      ranges.clear();
      break;
    }
    first = last;
  }
  const auto ends_with = [&](const RowRanges& last) {
    return last.edges.last == whole.edges.last && last.triplets.last == whole.triplets.last;
  };
  if (!ranges.empty() && ranges.front().edges.first == 0 && ranges.front().triplets.first == 0 &&
      ends_with(ranges.back())) {
    return ranges;
  }
  check_inside(rows, whole, n_atoms);
  return {whole};
}

int64_t bytes_of(const DerivativeTensors& rows) {
  return static_cast<int64_t>(rows.radial_grads.nbytes() + 3 * rows.grads_i.nbytes());
}

// Calls body(range) for ranges that share no atom.
template <typename Body>
void for_each_cut(const DerivativeTensors& rows, const at::Tensor& ptr, int64_t n_atoms, const Body& body) {
  static threads::AdaptiveParallelism pace;
  const int64_t bytes = bytes_of(rows);
  const int64_t max_threads =
      std::clamp(collate::usable_threads(0), int64_t{1}, std::max(bytes / kMinBytes, int64_t{1}));
  threads::run_adaptively(pace, bytes, max_threads, [&](int64_t n_threads) {
    const std::vector<RowRanges> ranges = cut(rows, items_of<int64_t>(ptr), n_atoms, n_threads);
    collate::for_each_range(std::ssize(ranges), [&](int64_t range) { body(ranges[static_cast<size_t>(range)]); });
  });
}

void check_type(const at::Tensor& tensor, const char* what) {
  if (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble) return;
  throw FieldError(cat(what, ": expected Float or Double, got ", c10::toString(tensor.scalar_type())));
}

int64_t n_features_of(const DerivativeTensors& rows) {
  return (rows.radial_grads.size(1) + rows.grads_i.size(1)) * (rows.radial_spin ? 2 : 1);
}

template <typename Real>
at::Tensor contract_as(const at::Tensor& weights, const DerivativeTensors& rows, const at::Tensor& ptr) {
  const at::Tensor forces = at::zeros({weights.size(0), 3}, weights.options());
  const DerivativeView<Real> view = view_of<Real>(rows);
  const Real* const from = weights.const_data_ptr<Real>();
  Real* const to = forces.mutable_data_ptr<Real>();
  for_each_cut(rows, ptr, weights.size(0), [&](const RowRanges& ranges) { contract(view, ranges, from, to); });
  return forces;
}

template <typename Real>
at::Tensor transpose_as(const at::Tensor& forces, const DerivativeTensors& rows, const at::Tensor& ptr) {
  const at::Tensor weights = at::zeros({forces.size(0), n_features_of(rows)}, forces.options());
  const DerivativeView<Real> view = view_of<Real>(rows);
  const Real* const from = forces.const_data_ptr<Real>();
  Real* const to = weights.mutable_data_ptr<Real>();
  for_each_cut(rows, ptr, forces.size(0),
               [&](const RowRanges& ranges) { contract_transposed(view, ranges, from, to); });
  return weights;
}

}  // namespace

at::Tensor contract(const at::Tensor& weights, const DerivativeTensors& rows, const at::Tensor& ptr) {
  check_type(weights, "dE_dfeatures");
  const DerivativeTensors all = check_tensors(rows, weights.scalar_type());
  collate::expect_tensor(weights, "dE_dfeatures", weights.scalar_type(), {weights.size(0), n_features_of(all)});
  collate::expect_ptr(ptr, weights.size(0));
  const auto as = weights.scalar_type() == at::kFloat ? contract_as<float> : contract_as<double>;
  return as(collate::in_plain_memory(weights), all, ptr);
}

at::Tensor contract_transposed(const at::Tensor& forces, const DerivativeTensors& rows, const at::Tensor& ptr) {
  check_type(forces, "forces");
  const DerivativeTensors all = check_tensors(rows, forces.scalar_type());
  collate::expect_tensor(forces, "forces", forces.scalar_type(), {forces.size(0), 3});
  collate::expect_ptr(ptr, forces.size(0));
  const auto as = forces.scalar_type() == at::kFloat ? transpose_as<float> : transpose_as<double>;
  return as(collate::in_plain_memory(forces), all, ptr);
}

}  // namespace atompack::ops
