// Registers the operators with torch: torch.ops.atompack_torch.*. This library needs no Python, so that programs in C++
// can load models that use them.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collate/arena.h"
#include "ops/contraction.h"
#include "ops/edge_vectors.h"
#include "ops/features.h"
#include "ops/neighbor_list.h"

namespace atompack::ops {
namespace {

// Errors of operators.

// Runs the body; errors in values become those of torch, which Python sees as ValueError.
template <typename Body>
auto with_errors_of_torch(const Body& body) {
  try {
    return body();
  } catch (const DataError& error) {
    C10_THROW_ERROR(ValueError, std::string(error.what()));
  }
}

using Spin = std::optional<at::Tensor>;

// The columns of derivatives, in the order of the schema.
#define ATOMPACK_ROWS                                                                                               \
  const at::Tensor &radial_center, const at::Tensor &radial_neighbor, const at::Tensor &radial_grads,               \
      const Spin &radial_spin, const at::Tensor &angular_center, const at::Tensor &angular_j,                       \
      const at::Tensor &angular_k, const at::Tensor &grads_i, const at::Tensor &grads_j, const at::Tensor &grads_k, \
      const Spin &angular_spin

#define ATOMPACK_GATHERED_ROWS                                                                                         \
  DerivativeTensors {                                                                                                  \
    radial_center, radial_neighbor, radial_grads, radial_spin, angular_center, angular_j, angular_k, grads_i, grads_j, \
        grads_k, angular_spin                                                                                          \
  }

at::Tensor contract_on_cpu(const at::Tensor& weights, const at::Tensor& ptr, ATOMPACK_ROWS) {
  return with_errors_of_torch([&] { return contract(weights, ATOMPACK_GATHERED_ROWS, ptr.contiguous()); });
}

at::Tensor transpose_on_cpu(const at::Tensor& forces, const at::Tensor& ptr, ATOMPACK_ROWS) {
  return with_errors_of_torch([&] { return contract_transposed(forces, ATOMPACK_GATHERED_ROWS, ptr.contiguous()); });
}

// The weights of one kind of rows: plain ones, and with spins the sum with those of the second half of the features.
at::Tensor weights_of_rows(const at::Tensor& weights, const at::Tensor& center, const Spin& spin, c10::SymInt first,
                           c10::SymInt count, c10::SymInt n_plain) {
  at::Tensor of_rows = weights.narrow_symint(1, first, count).index_select(0, center);
  if (!spin) return of_rows;
  return of_rows + spin->unsqueeze(1) * weights.narrow_symint(1, n_plain + first, count).index_select(0, center);
}

at::Tensor pull(const at::Tensor& weights, const at::Tensor& grads) {
  return at::bmm(weights.unsqueeze(1), grads).squeeze(1);
}

// With torch's own operators, on other devices.
at::Tensor contract_anywhere(const at::Tensor& weights, const at::Tensor& ptr, ATOMPACK_ROWS) {
  const c10::SymInt n_radial = radial_grads.sym_size(1), n_angular = grads_i.sym_size(1);
  at::Tensor forces = weights.new_zeros_symint({weights.sym_size(0), 3});
  const at::Tensor radial = weights_of_rows(weights, radial_center, radial_spin, 0, n_radial, n_radial + n_angular);
  const at::Tensor force = pull(radial, radial_grads);
  forces = forces.index_add(0, radial_center, force).index_add(0, radial_neighbor, force, -1);
  const at::Tensor angular =
      weights_of_rows(weights, angular_center, angular_spin, n_radial, n_angular, n_radial + n_angular);
  forces = forces.index_add(0, angular_center, pull(angular, grads_i), -1);
  forces = forces.index_add(0, angular_j, pull(angular, grads_j), -1);
  return forces.index_add(0, angular_k, pull(angular, grads_k), -1);
}

at::Tensor along(const at::Tensor& grads, const at::Tensor& forces) {
  return at::bmm(grads, forces.unsqueeze(2)).squeeze(2);
}

at::Tensor transpose_anywhere(const at::Tensor& forces, const at::Tensor& ptr, ATOMPACK_ROWS) {
  const at::Tensor difference = forces.index_select(0, radial_center) - forces.index_select(0, radial_neighbor);
  const at::Tensor radial = along(radial_grads, difference);
  const at::Tensor angular =
      -(along(grads_i, forces.index_select(0, angular_center)) + along(grads_j, forces.index_select(0, angular_j)) +
        along(grads_k, forces.index_select(0, angular_k)));
  const auto summed = [&](const at::Tensor& rows, const at::Tensor& center) {
    return forces.new_zeros_symint({forces.sym_size(0), rows.sym_size(1)}).index_add(0, center, rows);
  };
  const at::Tensor plain = at::cat({summed(radial, radial_center), summed(angular, angular_center)}, 1);
  if (!radial_spin || !angular_spin) return plain;
  return at::cat({plain, summed(radial_spin->unsqueeze(1) * radial, radial_center),
                  summed(angular_spin->unsqueeze(1) * angular, angular_center)},
                 1);
}

at::Tensor contract_sizes(const at::Tensor& weights, const at::Tensor& ptr, ATOMPACK_ROWS) {
  return weights.new_empty_symint({weights.sym_size(0), 3});
}

at::Tensor transpose_sizes(const at::Tensor& forces, const at::Tensor& ptr, ATOMPACK_ROWS) {
  const c10::SymInt n_plain = radial_grads.sym_size(1) + grads_i.sym_size(1);
  return forces.new_empty_symint({forces.sym_size(0), radial_spin ? 2 * n_plain : n_plain});
}

// Structures and options of a search, in the order of the schema.
#define ATOMPACK_SEARCHED                                                                                 \
  const at::Tensor &positions, const std::optional<at::Tensor>&cell, const std::optional<at::Tensor>&pbc, \
      const at::Tensor &ptr, double cutoff, bool full, bool self_interaction, std::optional<int64_t> max_neighbors

PairTensors find_pairs(bool vectors, ATOMPACK_SEARCHED) {
  return with_errors_of_torch([&] {
    if (!(cutoff > 0) || cutoff > 1e15) throw FieldError(cat("cutoff: expected a positive number, got ", cutoff));
    if (max_neighbors && (*max_neighbors < 1 || !full || self_interaction)) {
      throw FieldError("max_neighbors: expected at least 1, with full lists and without self-interaction");
    }
    physics::NeighborOptions options{
        .cutoff = cutoff, .full = full, .vectors = vectors, .self_interaction = self_interaction};
    if (max_neighbors) options.max_neighbors = static_cast<size_t>(*max_neighbors);
    return find_neighbors({positions, cell, pbc, ptr.contiguous()}, options);
  });
}

std::tuple<at::Tensor, at::Tensor> neighbors_on_cpu(ATOMPACK_SEARCHED) {
  auto [index, shift, none] =
      find_pairs(false, positions, cell, pbc, ptr, cutoff, full, self_interaction, max_neighbors);
  return {index, shift};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> neighbors_with_vectors_on_cpu(ATOMPACK_SEARCHED) {
  auto [index, shift, vector] =
      find_pairs(true, positions, cell, pbc, ptr, cutoff, full, self_interaction, max_neighbors);
  return {index, shift, vector};
}

at::Tensor edge_vectors_on_cpu(const at::Tensor& positions, const std::optional<at::Tensor>& cell,
                               const at::Tensor& ptr, const at::Tensor& index, const at::Tensor& shift) {
  return with_errors_of_torch([&] { return edge_vectors(positions, cell, {ptr.contiguous(), index, shift}); });
}

std::tuple<at::Tensor, at::Tensor> edge_vectors_transposed_on_cpu(const at::Tensor& vectors, const at::Tensor& ptr,
                                                                  const at::Tensor& index, const at::Tensor& shift,
                                                                  int64_t n_atoms, bool has_cell) {
  return with_errors_of_torch([&] {
    auto [positions, cell] = edge_vectors_transposed(vectors, {ptr.contiguous(), index, shift}, n_atoms, has_cell);
    return std::tuple(positions, cell);
  });
}

at::Tensor edge_vectors_sizes(const at::Tensor& positions, const std::optional<at::Tensor>& cell, const at::Tensor& ptr,
                              const at::Tensor& index, const at::Tensor& shift) {
  return positions.new_empty_symint({shift.sym_size(0), 3});
}

std::tuple<at::Tensor, at::Tensor> edge_vectors_transposed_sizes(const at::Tensor& vectors, const at::Tensor& ptr,
                                                                 const at::Tensor& index, const at::Tensor& shift,
                                                                 c10::SymInt n_atoms, bool has_cell) {
  const c10::SymInt n_cells = has_cell ? ptr.sym_size(0) - 1 : 0;
  return {vectors.new_empty_symint({std::move(n_atoms), 3}), vectors.new_empty_symint({n_cells, 3, 3})};
}

}  // namespace

// Registers the features of Chebyshev descriptors with torch, and their products with vectors from both sides.

namespace {

// Structures and settings, in the order of the schema.
#define ATOMPACK_DESCRIBED                                                                                \
  const at::Tensor &positions, const at::Tensor &atomic_numbers, const at::Tensor &ptr,                   \
      const std::optional<at::Tensor>&cell, const std::optional<at::Tensor>&pbc, at::IntArrayRef species, \
      int64_t rad_order, double rad_cutoff, int64_t ang_order, double ang_cutoff, double min_cutoff

#define ATOMPACK_PASSED \
  positions, atomic_numbers, ptr, cell, pbc, species, rad_order, rad_cutoff, ang_order, ang_cutoff, min_cutoff

constexpr int64_t kMaxOrder = 1000;

int order_of(const char* name, int64_t order) {
  if (order < 0 || order > kMaxOrder) throw FieldError(cat(name, ": expected 0 to ", kMaxOrder, ", got ", order));
  return static_cast<int>(order);
}

Featurizer featurizer_of(at::IntArrayRef species, int64_t rad_order, double rad_cutoff, int64_t ang_order,
                         double ang_cutoff, double min_cutoff) {
  std::vector<std::string> labels;
  for (const int64_t number : species) labels.push_back(cat("number ", number));
  return {physics::ChebyshevOptions{.species = std::move(labels),
                                    .rad_order = order_of("rad_order", rad_order),
                                    .rad_cutoff = rad_cutoff,
                                    .ang_order = order_of("ang_order", ang_order),
                                    .ang_cutoff = ang_cutoff,
                                    .min_cutoff = min_cutoff},
          species.vec()};
}

Features computed(bool derivatives, ATOMPACK_DESCRIBED) {
  const Featurizer featurizer = featurizer_of(species, rad_order, rad_cutoff, ang_order, ang_cutoff, min_cutoff);
  return featurizer.compute({positions, cell, pbc, ptr.contiguous()}, atomic_numbers, derivatives,
                            collate::dtype_of(positions.scalar_type()));
}

// The columns of the derivatives that were made; none of spins for one species.
DerivativeTensors columns_of(const std::vector<at::Tensor>& made) {
  if (made.size() == 9) {
    return {made[0], made[1], made[2], std::nullopt, made[3],     made[4],
            made[5], made[6], made[7], made[8],      std::nullopt};
  }
  return {made[0], made[1], made[2], made[3], made[4], made[5], made[6], made[7], made[8], made[9], made[10]};
}

at::Tensor features_on_cpu(ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] { return computed(false, ATOMPACK_PASSED).features; });
}

// Forces are the negative gradient.
at::Tensor gradient_on_cpu(const at::Tensor& weights, ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] {
    const Features made = computed(true, ATOMPACK_PASSED);
    return contract(weights, columns_of(made.derivatives), ptr.contiguous()).neg_();
  });
}

at::Tensor changes_on_cpu(const at::Tensor& directions, ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] {
    const Features made = computed(true, ATOMPACK_PASSED);
    return contract_transposed(directions, columns_of(made.derivatives), ptr.contiguous()).neg_();
  });
}

int64_t n_features_of(at::IntArrayRef species, int64_t rad_order, int64_t ang_order) {
  return (rad_order + ang_order + 2) * (species.size() > 1 ? 2 : 1);
}

at::Tensor features_sizes(ATOMPACK_DESCRIBED) {
  return positions.new_empty_symint({positions.sym_size(0), n_features_of(species, rad_order, ang_order)});
}

at::Tensor gradient_sizes(const at::Tensor& weights, ATOMPACK_DESCRIBED) {
  return positions.new_empty_symint({positions.sym_size(0), 3});
}

at::Tensor changes_sizes(const at::Tensor& directions, ATOMPACK_DESCRIBED) { return features_sizes(ATOMPACK_PASSED); }

}  // namespace

}  // namespace atompack::ops

TORCH_LIBRARY(atompack_torch, library) {
  const std::string rows =
      "Tensor ptr, Tensor radial_center, Tensor radial_neighbor, Tensor radial_grads, Tensor? radial_spin, "
      "Tensor angular_center, Tensor angular_j, Tensor angular_k, Tensor grads_i, Tensor grads_j, Tensor grads_k, "
      "Tensor? angular_spin) -> Tensor";
  library.def(("contract_forces(Tensor weights, " + rows).c_str());
  library.def(("contract_forces_transposed(Tensor forces, " + rows).c_str());
  library.def(
      "neighbor_list(Tensor positions, Tensor? cell, Tensor? pbc, Tensor ptr, float cutoff, bool full=True, "
      "bool self_interaction=False, int? max_neighbors=None) -> (Tensor, Tensor)");
  library.def(
      "neighbor_list_with_vectors(Tensor positions, Tensor? cell, Tensor? pbc, Tensor ptr, float cutoff, "
      "bool full=True, bool self_interaction=False, int? max_neighbors=None) -> (Tensor, Tensor, Tensor)");
  library.def("edge_vectors(Tensor positions, Tensor? cell, Tensor ptr, Tensor index, Tensor shift) -> Tensor");
  library.def(
      "edge_vectors_transposed(Tensor vectors, Tensor ptr, Tensor index, Tensor shift, SymInt n_atoms, "
      "bool has_cell) -> (Tensor, Tensor)");
  const std::string described =
      "Tensor positions, Tensor atomic_numbers, Tensor ptr, Tensor? cell, Tensor? pbc, int[] species, int rad_order, "
      "float rad_cutoff, int ang_order, float ang_cutoff, float min_cutoff) -> Tensor";
  library.def(("chebyshev_features(" + described).c_str());
  library.def(("chebyshev_gradient(Tensor weights, " + described).c_str());
  library.def(("chebyshev_changes(Tensor directions, " + described).c_str());
}

TORCH_LIBRARY_IMPL(atompack_torch, CPU, library) {
  library.impl("contract_forces", atompack::ops::contract_on_cpu);
  library.impl("contract_forces_transposed", atompack::ops::transpose_on_cpu);
  library.impl("neighbor_list", atompack::ops::neighbors_on_cpu);
  library.impl("neighbor_list_with_vectors", atompack::ops::neighbors_with_vectors_on_cpu);
  library.impl("edge_vectors", atompack::ops::edge_vectors_on_cpu);
  library.impl("edge_vectors_transposed", atompack::ops::edge_vectors_transposed_on_cpu);
  library.impl("chebyshev_features", atompack::ops::features_on_cpu);
  library.impl("chebyshev_gradient", atompack::ops::gradient_on_cpu);
  library.impl("chebyshev_changes", atompack::ops::changes_on_cpu);
}

TORCH_LIBRARY_IMPL(atompack_torch, CUDA, library) {
  library.impl("contract_forces", atompack::ops::contract_anywhere);
  library.impl("contract_forces_transposed", atompack::ops::transpose_anywhere);
}

TORCH_LIBRARY_IMPL(atompack_torch, Meta, library) {
  library.impl("contract_forces", atompack::ops::contract_sizes);
  library.impl("contract_forces_transposed", atompack::ops::transpose_sizes);
  library.impl("edge_vectors", atompack::ops::edge_vectors_sizes);
  library.impl("edge_vectors_transposed", atompack::ops::edge_vectors_transposed_sizes);
  library.impl("chebyshev_features", atompack::ops::features_sizes);
  library.impl("chebyshev_gradient", atompack::ops::gradient_sizes);
  library.impl("chebyshev_changes", atompack::ops::changes_sizes);
}
