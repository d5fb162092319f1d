// Chebyshev descriptor of Artrith, Urban and Ceder with species as weights, as computed by aenet: sums over the
// neighbors of an atom and over pairs of them. CHEBYSHEV.md explains the mathematics; names follow it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/neighborhoods.h"

namespace atompack::physics {

// Derivatives of an atom's features with respect to nearby positions, as rows of edges and triplets.

// Destinations of rows. Atoms are numbered as the caller chooses; gradients are those of the unweighted features.
template <typename Real>
struct DerivativeRows {
  int64_t *radial_center = nullptr, *radial_neighbor = nullptr;  // (E)
  Real* radial_grads = nullptr;                                  // (E, n_radial, 3): with respect to the neighbor
  Real* radial_spin = nullptr;                                   // (E); null for one species
  int64_t *angular_center = nullptr, *angular_j = nullptr, *angular_k = nullptr;  // (T)
  Real *grads_i = nullptr, *grads_j = nullptr, *grads_k = nullptr;                // (T, n_angular, 3)
  Real* angular_spin = nullptr;                                                   // (T); null for one species
};

// Chebyshev polynomials of many arguments in one call.

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

struct ChebyshevOptions {
  std::vector<std::string> species;
  int rad_order;
  double rad_cutoff;
  int ang_order;
  double ang_cutoff;
  double min_cutoff = 0.55;
};

// Value and derivative of a cutoff function.
struct Damping {
  double value, slope;
};

// Working memory of one thread.
struct ChebyshevScratch {
  // One neighbor within the angular cutoff.
  struct Leg {
    Vector3 direction;
    double inverse;  // inverse distance
    Damping damping;
    double spin;
    int64_t atom;
  };
  ChebyshevBlock radial, angular;
  std::vector<Damping> dampings;  // radial, per edge of a center
  std::vector<Leg> legs;
  std::vector<double> features;
  std::vector<uint16_t> j, k;  // legs of the triplets in the block
};

// Work of one thread: centers [first, last) of `near`.
template <typename Real>
struct CenterTask {
  size_t first, last;
  std::span<const int32_t> species;  // index of the species of each atom of `near`; all in range
  int64_t first_atom;                // index of the first atom of `near`
  Real* features;                    // (centers, n_features), starting at the first center of `near`
  const DerivativeRows<Real>* rows;  // the same for derivatives; null: none are computed
};

// Immutable and thread-safe. All sums are made in float64 and in one order, whatever the range of centers is.
class Chebyshev {
 public:
  // Throws FieldError for invalid options.
  explicit Chebyshev(ChebyshevOptions options);

  const ChebyshevOptions& options() const { return options_; }
  size_t n_radial() const { return static_cast<size_t>(options_.rad_order) + 1; }
  size_t n_angular() const { return static_cast<size_t>(options_.ang_order) + 1; }
  size_t n_features() const { return (n_radial() + n_angular()) * (multi() ? 2 : 1); }

  // True if there are several species, distinguished by weights.
  bool multi() const { return options_.species.size() > 1; }
  const std::vector<double>& typespin() const { return typespin_; }

  NeighborhoodSearch search() const;
  ChebyshevScratch scratch() const;

  // Rounds once, to Real (float or double).
  template <typename Real>
  void compute(const Neighborhoods& near, const CenterTask<Real>& task, ChebyshevScratch& scratch) const;

 private:
  template <typename Real>
  class Center;

  ChebyshevOptions options_;
  std::vector<double> typespin_;
};

}  // namespace atompack::physics
