#include "physics/chebyshev/chebyshev.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "base/error.h"

namespace atompack::physics {

// Loops run over multiples of this many columns, so that the compiler needs no remainder loop.
constexpr size_t kLanes = 8;

constexpr double kMinSine = 1e-5;

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

namespace {

// A shorter cutoff is a mistake; the neighbor search rejects values near 0.
constexpr double kMinCutoff = 1e-3;

constexpr int kHighestOrder = 1000;

void check(bool is_right, const char* what, const char* expected, double got) {
  if (!is_right) throw FieldError(cat(what, ": expected ", expected, ", got ", got));
}

void check(const ChebyshevOptions& options) {
  const auto is_order = [](int order) { return order >= 0 && order <= kHighestOrder; };
  const auto is_cutoff = [](double cutoff) { return std::isfinite(cutoff) && cutoff >= kMinCutoff; };
  check(is_order(options.rad_order), "rad_order", "0 to 1000", options.rad_order);
  check(is_order(options.ang_order), "ang_order", "0 to 1000", options.ang_order);
  check(is_cutoff(options.rad_cutoff), "rad_cutoff", "a finite number, at least 0.001", options.rad_cutoff);
  check(is_cutoff(options.ang_cutoff), "ang_cutoff", "a finite number, at least 0.001", options.ang_cutoff);
  check(std::isfinite(options.min_cutoff) && options.min_cutoff >= 0, "min_cutoff", "a finite number, at least 0",
        options.min_cutoff);
  if (options.species.empty()) throw FieldError("species: expected at least one label, got none");
  const std::set<std::string> distinct(options.species.begin(), options.species.end());
  if (distinct.size() != options.species.size()) {
    throw FieldError(cat("species: expected unique labels, got ", distinct.size(), " among ", options.species.size()));
  }
}

// Returns -h, ..., -1, 1, ..., h in the order of the list, with 0 in the middle of an odd number.
std::vector<double> typespins(size_t n_species) {
  std::vector<double> spins;
  const int half = static_cast<int>(n_species / 2);
  for (int spin = -half; spin <= half; ++spin) {
    if (spin != 0 || n_species % 2 == 1) spins.push_back(spin);
  }
  return spins;
}

Damping damping_at(double distance, double cutoff) {
  if (!(distance < cutoff)) return {0, 0};
  const double angle = std::numbers::pi * distance / cutoff;
  return {(std::cos(angle) + 1) / 2, -std::numbers::pi / (2 * cutoff) * std::sin(angle)};
}

}  // namespace

// Processes centers one after the other.
template <typename Real>
class Chebyshev::Center {
 public:
  Center(const Chebyshev& descriptor, const Neighborhoods& near, const CenterTask<Real>& task, ChebyshevScratch& room)
      : descriptor_(descriptor),
        options_(descriptor.options_),
        near_(near),
        task_(task),
        room_(room),
        n_radial_(descriptor.n_radial()),
        n_angular_(descriptor.n_angular()),
        multi_(descriptor.multi()) {}

  void compute(size_t center) {
    center_ = center;
    first_edge_ = near_.edge_ends[center];
    n_edges_ = near_.edge_ends[center + 1] - first_edge_;
    triplet_ = near_.triplet_ends[center];
    room_.features.assign(descriptor_.n_features(), 0.0);
    find_neighbors();
    for (size_t edge = 0; edge < n_edges_; edge += ChebyshevBlock::kColumns) add_edges(edge);
    add_triplets();
    Real* const to = task_.features + center * room_.features.size();
    for (size_t n = 0; n < room_.features.size(); ++n) to[n] = static_cast<Real>(room_.features[n]);
  }

 private:
  void find_neighbors();
  void add_edges(size_t first);
  void write_edges(size_t first, size_t n_columns) const;
  void add_triplets();
  void fill_block(size_t first_column, size_t j, size_t first_k, size_t n);
  void add_block(size_t n_columns);
  void write_triplets(size_t n_columns);
  void write_gradients(size_t column, size_t row) const;

  double spin_of(size_t edge) const {
    return descriptor_.typespin_[static_cast<size_t>(task_.species[near_.neighbors[edge]])];
  }
  double* angular_sums() const { return &room_.features[n_radial_]; }
  double* spin_sums() const { return &room_.features[n_radial_ + n_angular_]; }

  const Chebyshev& descriptor_;
  const ChebyshevOptions& options_;
  const Neighborhoods& near_;
  const CenterTask<Real>& task_;
  ChebyshevScratch& room_;
  const size_t n_radial_, n_angular_;
  const bool multi_;
  size_t center_ = 0, first_edge_ = 0, n_edges_ = 0;
  size_t triplet_ = 0;  // next row
};

// Computes sines and cosines once per edge and cutoff.
template <typename Real>
void Chebyshev::Center<Real>::find_neighbors() {
  const bool is_same = options_.rad_cutoff == options_.ang_cutoff;
  room_.dampings.clear();
  room_.legs.clear();
  for (size_t edge = first_edge_; edge < first_edge_ + n_edges_; ++edge) {
    const double distance = near_.distances[edge];
    const Damping radial = damping_at(distance, options_.rad_cutoff);
    room_.dampings.push_back(radial);
    if (!(distance <= options_.ang_cutoff)) continue;
    room_.legs.push_back({near_.directions[edge], 1 / distance,
                          is_same ? radial : damping_at(distance, options_.ang_cutoff), spin_of(edge),
                          task_.first_atom + near_.neighbors[edge]});
  }
}

template <typename Real>
void Chebyshev::Center<Real>::add_edges(size_t first) {
  ChebyshevBlock& block = room_.radial;
  const size_t n_columns = std::min(n_edges_ - first, ChebyshevBlock::kColumns);
  for (size_t t = 0; t < n_columns; ++t) {
    const size_t edge = first_edge_ + first + t;
    block.x[t] = std::clamp(2 * near_.distances[edge] / options_.rad_cutoff - 1, -1.0, 1.0);
    block.weight[t] = room_.dampings[first + t].value;
    block.spin_weight[t] = block.weight[t] * spin_of(edge);
  }
  block.evaluate(n_columns);
  block.add_sums(room_.features.data());
  if (multi_) block.add_spin_sums(spin_sums());
  if (task_.rows == nullptr) return;
  block.differentiate();
  write_edges(first, n_columns);
}

template <typename Real>
void Chebyshev::Center<Real>::write_edges(size_t first, size_t n_columns) const {
  const DerivativeRows<Real>& rows = *task_.rows;
  const ChebyshevBlock& block = room_.radial;
  for (size_t t = 0; t < n_columns; ++t) {
    const size_t edge = first_edge_ + first + t;
    rows.radial_center[edge] = task_.first_atom + static_cast<int64_t>(center_);
    rows.radial_neighbor[edge] = task_.first_atom + near_.neighbors[edge];
    if (multi_) rows.radial_spin[edge] = static_cast<Real>(spin_of(edge));
    const auto [value, slope] = room_.dampings[first + t];
    const double inner = 2 / options_.rad_cutoff * value;
    const Vector3& u = near_.directions[edge];
    Real* to = rows.radial_grads + edge * n_radial_ * 3;
    for (size_t n = 0; n < n_radial_; ++n) {
      const double g = block.slopes(n)[t] * inner + block.values(n)[t] * slope;
      for (size_t axis = 0; axis < 3; ++axis) *to++ = static_cast<Real>(g * u[axis]);
    }
  }
}

// Iterates over all pairs of legs, in blocks.
template <typename Real>
void Chebyshev::Center<Real>::add_triplets() {
  const size_t n_legs = room_.legs.size();
  size_t n_columns = 0;
  for (size_t j = 0; j < n_legs; ++j) {
    for (size_t k = j + 1; k < n_legs;) {
      const size_t n = std::min(n_legs - k, ChebyshevBlock::kColumns - n_columns);
      fill_block(n_columns, j, k, n);
      n_columns += n;
      k += n;
      if (n_columns < ChebyshevBlock::kColumns) continue;
      add_block(n_columns);
      n_columns = 0;
    }
  }
  if (n_columns > 0) add_block(n_columns);
}

template <typename Real>
void Chebyshev::Center<Real>::fill_block(size_t first_column, size_t j, size_t first_k, size_t n) {
  ChebyshevBlock& block = room_.angular;
  const ChebyshevScratch::Leg& one = room_.legs[j];
  for (size_t i = 0; i < n; ++i) {
    const ChebyshevScratch::Leg& other = room_.legs[first_k + i];
    const size_t t = first_column + i;
    block.x[t] = std::clamp(dot(one.direction, other.direction), -1.0, 1.0);
    block.weight[t] = one.damping.value * other.damping.value;
    block.spin_weight[t] = block.weight[t] * (one.spin * other.spin);
    room_.j[t] = static_cast<uint16_t>(j);
    room_.k[t] = static_cast<uint16_t>(first_k + i);
  }
}

template <typename Real>
void Chebyshev::Center<Real>::add_block(size_t n_columns) {
  ChebyshevBlock& block = room_.angular;
  block.evaluate(n_columns);
  block.add_sums(angular_sums());
  if (multi_) block.add_spin_sums(spin_sums() + n_radial_);
  if (task_.rows == nullptr) return;
  block.differentiate();
  write_triplets(n_columns);
}

template <typename Real>
void Chebyshev::Center<Real>::write_triplets(size_t n_columns) {
  const DerivativeRows<Real>& rows = *task_.rows;
  for (size_t t = 0; t < n_columns; ++t, ++triplet_) {
    const ChebyshevScratch::Leg &one = room_.legs[room_.j[t]], &other = room_.legs[room_.k[t]];
    rows.angular_center[triplet_] = task_.first_atom + static_cast<int64_t>(center_);
    rows.angular_j[triplet_] = one.atom;
    rows.angular_k[triplet_] = other.atom;
    if (multi_) rows.angular_spin[triplet_] = static_cast<Real>(one.spin * other.spin);
    write_gradients(t, triplet_);
  }
}

// In each gradient, the factors of T_n' and T_n do not depend on n.
template <typename Real>
void Chebyshev::Center<Real>::write_gradients(size_t column, size_t row) const {
  const DerivativeRows<Real>& rows = *task_.rows;
  const ChebyshevBlock& block = room_.angular;
  const ChebyshevScratch::Leg &one = room_.legs[room_.j[column]], &other = room_.legs[room_.k[column]];
  const double cosine = block.x[column], weight = block.weight[column];
  const double scale_j = weight * one.inverse, scale_k = weight * other.inverse;
  const double stretch_j = one.damping.slope * other.damping.value;
  const double stretch_k = one.damping.value * other.damping.slope;
  Vector3 turn_j, turn_k, pull_j, pull_k;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double u_j = one.direction[axis], u_k = other.direction[axis];
    turn_j[axis] = (u_k - cosine * u_j) * scale_j;
    turn_k[axis] = (u_j - cosine * u_k) * scale_k;
    pull_j[axis] = stretch_j * u_j;
    pull_k[axis] = stretch_k * u_k;
  }
  const double *slope = block.slopes(0) + column, *value = block.values(0) + column;
  const size_t first = row * n_angular_ * 3;
  Real *to_i = rows.grads_i + first, *to_j = rows.grads_j + first, *to_k = rows.grads_k + first;
  for (size_t n = 0; n < n_angular_; ++n, slope += ChebyshevBlock::kColumns, value += ChebyshevBlock::kColumns) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const double g_j = *slope * turn_j[axis] + *value * pull_j[axis];
      const double g_k = *slope * turn_k[axis] + *value * pull_k[axis];
      *to_j++ = static_cast<Real>(g_j);
      *to_k++ = static_cast<Real>(g_k);
      *to_i++ = static_cast<Real>(-(g_j + g_k));
    }
  }
}

Chebyshev::Chebyshev(ChebyshevOptions options) : options_(std::move(options)) {
  check(options_);
  typespin_ = typespins(options_.species.size());
}

NeighborhoodSearch Chebyshev::search() const {
  return NeighborhoodSearch({.min_cutoff = options_.min_cutoff,
                             .max_cutoff = std::max(options_.rad_cutoff, options_.ang_cutoff),
                             .ang_cutoff = options_.ang_cutoff});
}

ChebyshevScratch Chebyshev::scratch() const {
  constexpr size_t kColumns = ChebyshevBlock::kColumns;
  return {.radial = ChebyshevBlock(n_radial() - 1),
          .angular = ChebyshevBlock(n_angular() - 1),
          .dampings = {},
          .legs = {},
          .features = {},
          .j = std::vector<uint16_t>(kColumns),
          .k = std::vector<uint16_t>(kColumns)};
}

template <typename Real>
void Chebyshev::compute(const Neighborhoods& near, const CenterTask<Real>& task, ChebyshevScratch& scratch) const {
  Center<Real> center(*this, near, task, scratch);
  for (size_t i = task.first; i < task.last; ++i) center.compute(i);
}

template void Chebyshev::compute(const Neighborhoods&, const CenterTask<float>&, ChebyshevScratch&) const;
template void Chebyshev::compute(const Neighborhoods&, const CenterTask<double>&, ChebyshevScratch&) const;

}  // namespace atompack::physics
