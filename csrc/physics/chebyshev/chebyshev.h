// The Chebyshev descriptor of Artrith, Urban and Ceder with species as weights, as aenet computes it: sums over the
// neighbors of an atom, and over their pairs. The mathematics: CHEBYSHEV.md; names follow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "physics/chebyshev/chebyshev_block.h"
#include "physics/chebyshev/local_derivatives.h"
#include "physics/neighbors/lattice.h"
#include "physics/neighbors/neighborhoods.h"

namespace atompack::physics {

struct ChebyshevOptions {
  std::vector<std::string> species;
  int rad_order;
  double rad_cutoff;
  int ang_order;
  double ang_cutoff;
  double min_cutoff = 0.55;
};

// A cutoff function and its derivative.
struct Damping {
  double value, slope;
};

// Room for one thread.
struct ChebyshevScratch {
  // One neighbor within the angular cutoff.
  struct Leg {
    Vector3 direction;
    double inverse;  // of the distance
    Damping damping;
    double spin;
    int64_t atom;
  };
  ChebyshevBlock radial, angular;
  std::vector<Damping> dampings;  // of a center's edges, radial
  std::vector<Leg> legs;
  std::vector<double> features;
  std::vector<uint16_t> j, k;  // legs of the triplets in the block
};

// What one thread is to do: centers of `near` from `first` to before `last`.
template <typename Real>
struct CenterTask {
  size_t first, last;
  std::span<const int32_t> species;  // of all atoms of `near`, by place in the options; all in range
  int64_t first_atom;                // the number of the first of them
  Real* features;                    // (centers, n_features), from the first of `near`
  const DerivativeRows<Real>* rows;  // likewise; null: no derivatives
};

// Immutable and thread-safe. All sums are made in float64 and in one order, whatever the range of centers is.
class Chebyshev {
 public:
  // Throws FieldError where an option makes no sense.
  explicit Chebyshev(ChebyshevOptions options);

  const ChebyshevOptions& options() const { return options_; }
  size_t n_radial() const { return static_cast<size_t>(options_.rad_order) + 1; }
  size_t n_angular() const { return static_cast<size_t>(options_.ang_order) + 1; }
  size_t n_features() const { return (n_radial() + n_angular()) * (multi() ? 2 : 1); }

  // Whether there are species to be told apart, by weights of their own.
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

// One structure from beginning to end, with all the room that it takes. For one thread.
class ChebyshevWorkspace {
 public:
  explicit ChebyshevWorkspace(const Chebyshev& descriptor)
      : descriptor_(descriptor), search_(descriptor.search()), scratch_(descriptor.scratch()) {}

  // `positions` holds x, y, z of each atom; `features` (atoms, n_features). Throws FieldError where the search does,
  // or a species is not in the options.
  void compute(std::span<const double> positions, std::span<const int32_t> species, const Lattice& lattice,
               std::vector<double>& features, LocalDerivatives* derivatives = nullptr);

 private:
  const Chebyshev& descriptor_;
  NeighborhoodSearch search_;
  Neighborhoods near_;
  ChebyshevScratch scratch_;
};

}  // namespace atompack::physics
