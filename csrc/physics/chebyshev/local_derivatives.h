// Derivatives of an atom's features with respect to nearby positions, as rows of edges and triplets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atompack::physics {

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

// Memory for the rows of one structure, reused for the next.
struct LocalDerivatives {
  std::vector<int64_t> radial_center, radial_neighbor;
  std::vector<double> radial_grads, radial_spin;
  std::vector<int64_t> angular_center, angular_j, angular_k;
  std::vector<double> grads_i, grads_j, grads_k, angular_spin;

  size_t n_edges() const { return radial_center.size(); }
  size_t n_triplets() const { return angular_center.size(); }

  // Empty for a single species.
  struct Extent {
    size_t n_edges, n_triplets, n_radial, n_angular;
    bool multi;
  };
  void resize(const Extent& extent) {
    for (auto* atoms : {&radial_center, &radial_neighbor}) atoms->resize(extent.n_edges);
    for (auto* atoms : {&angular_center, &angular_j, &angular_k}) atoms->resize(extent.n_triplets);
    radial_grads.resize(extent.n_edges * extent.n_radial * 3);
    for (auto* grads : {&grads_i, &grads_j, &grads_k}) grads->resize(extent.n_triplets * extent.n_angular * 3);
    radial_spin.resize(extent.multi ? extent.n_edges : 0);
    angular_spin.resize(extent.multi ? extent.n_triplets : 0);
  }

  DerivativeRows<double> rows() {
    return {.radial_center = radial_center.data(),
            .radial_neighbor = radial_neighbor.data(),
            .radial_grads = radial_grads.data(),
            .radial_spin = radial_spin.empty() ? nullptr : radial_spin.data(),
            .angular_center = angular_center.data(),
            .angular_j = angular_j.data(),
            .angular_k = angular_k.data(),
            .grads_i = grads_i.data(),
            .grads_j = grads_j.data(),
            .grads_k = grads_k.data(),
            .angular_spin = angular_spin.empty() ? nullptr : angular_spin.data()};
  }
};

}  // namespace atompack::physics
