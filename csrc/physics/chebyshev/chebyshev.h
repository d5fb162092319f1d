// Chebyshev descriptor of Artrith, Urban and Ceder with species as weights, as computed by aenet: sums over the
// neighbors of an atom and over pairs of them. CHEBYSHEV.md explains the mathematics; names follow it.
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

// One structure at a time, with all working memory. For one thread.
class ChebyshevWorkspace {
 public:
  explicit ChebyshevWorkspace(const Chebyshev& descriptor)
      : descriptor_(descriptor), search_(descriptor.search()), scratch_(descriptor.scratch()) {}

  // `positions` holds x, y, z of each atom; `features` (atoms, n_features). Throws FieldError for errors of the
  // neighbor search and for unknown species.
  void compute(std::span<const double> positions, std::span<const int32_t> species, const Lattice& lattice,
               std::vector<double>& features, LocalDerivatives* derivatives = nullptr);

 private:
  const Chebyshev& descriptor_;
  NeighborhoodSearch search_;
  Neighborhoods near_;
  ChebyshevScratch scratch_;
};

}  // namespace atompack::physics
