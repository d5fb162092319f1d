// Registers the operators with torch: torch.ops.atompack_torch.*. This library needs no Python, so that programs in C++
// can load models that use them.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collate/arena.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "ops/contraction.h"
#include "ops/features.h"
#include "ops/neighbor_list.h"

namespace atompack::ops {
namespace {

// Vectors along given edges, linear in positions and cells, and the transposed map, on torch's threads.

// Edges of B molecules with N atoms, as a neighbor search returns them: the first row of `index` ascends, and both
// atoms of an edge belong to the same molecule.
struct EdgeTensors {
  at::Tensor ptr;    // (B + 1) int64, the first atom of each molecule
  at::Tensor index;  // (2, E) int64
  at::Tensor shift;  // (E, 3) float32 or float64
};

// A thread works on molecules with about this many edges at a time.
constexpr int64_t kEdgesPerPart = 1 << 15;
// A molecule with more edges is shared by threads, each of which adds to sums of its own.
constexpr int64_t kLargeMolecule = 1 << 18;
constexpr int64_t kMaxPieces = 8;

EdgeTensors check_edges(const EdgeTensors& given, int64_t n_atoms) {
  collate::expect_ptr(given.ptr, n_atoms);
  const int64_t n_edges = given.shift.numel() / 3;
  collate::expect_tensor(given.index, "edge_index", at::kLong, {2, n_edges});
  collate::expect_tensor(given.shift, "edge_shift", given.shift.scalar_type(), {n_edges, 3});
  const auto type = given.shift.scalar_type();
  if (type != at::kFloat && type != at::kDouble) {
    throw FieldError(cat("edge_shift: expected Float or Double, got ", c10::toString(type))).at_field("edge_shift");
  }
  return {given.ptr, collate::in_plain_memory(given.index), collate::in_plain_memory(given.shift)};
}

// Consecutive edges, all of the same molecules unless one molecule is shared by several parts.
struct EdgeRange {
  size_t first_molecule, last_molecule;
  int64_t first_edge, last_edge;
};

class Edges {
 public:
  explicit Edges(const EdgeTensors& tensors)
      : ptr_(collate::items_of<int64_t>(tensors.ptr)), n_edges_(tensors.index.size(1)) {
    const std::span rows = collate::items_of<int64_t>(tensors.index);
    i_ = rows.first(static_cast<size_t>(n_edges_));
    j_ = rows.last(static_cast<size_t>(n_edges_));
    EdgeRange next{0, 0, 0, 0};
    for (size_t molecule = 0; molecule + 1 < ptr_.size(); ++molecule) {
      const auto from = i_.begin() + next.last_edge;
      next.last_edge = std::lower_bound(from, i_.end(), ptr_[molecule + 1]) - i_.begin();
      next.last_molecule = molecule + 1;
      if (next.last_edge - next.first_edge < kEdgesPerPart && molecule + 2 < ptr_.size()) continue;
      parts_.push_back(next);
      next = {molecule + 1, molecule + 1, next.last_edge, next.last_edge};
    }
    if (next.last_edge != n_edges_) refuse();
  }

  std::span<const EdgeRange> parts() const { return parts_; }
  int64_t first_atom(const EdgeRange& part) const { return ptr_[part.first_molecule]; }
  int64_t n_atoms(const EdgeRange& part) const { return ptr_[part.last_molecule] - first_atom(part); }
  int64_t n_threads() const { return n_edges_ < kEdgesPerPart ? 1 : collate::usable_threads(0); }

  // Calls visit(edge, molecule, i, j) for the edges of a part.
  template <typename Visit>
  void for_each(const EdgeRange& part, const Visit& visit) const {
    size_t molecule = part.first_molecule;
    int64_t last = first_atom(part);
    for (int64_t edge = part.first_edge; edge < part.last_edge; ++edge) {
      const int64_t i = i_[static_cast<size_t>(edge)], j = j_[static_cast<size_t>(edge)];
      if (i < last || i >= ptr_[part.last_molecule]) refuse();
      while (i >= ptr_[molecule + 1]) ++molecule;
      if (j < ptr_[molecule] || j >= ptr_[molecule + 1]) refuse();
      last = i;
      visit(edge, molecule, i, j);
    }
  }

  // Parts of a part that threads work on together.
  static std::vector<EdgeRange> pieces_of(const EdgeRange& part) {
    const int64_t n_edges = part.last_edge - part.first_edge;
    const int64_t n = std::clamp<int64_t>(n_edges / kLargeMolecule, 1, kMaxPieces);
    std::vector<EdgeRange> pieces(static_cast<size_t>(n), part);
    for (int64_t piece = 0; piece < n; ++piece) {
      pieces[static_cast<size_t>(piece)].first_edge = part.first_edge + n_edges * piece / n;
      pieces[static_cast<size_t>(piece)].last_edge = part.first_edge + n_edges * (piece + 1) / n;
    }
    return pieces;
  }

 private:
  [[noreturn]] static void refuse() {
    throw FieldError("edge_index: expected ascending atoms i, and atoms j of the same molecule, got others")
        .at_field("edge_index");
  }

  std::span<const int64_t> ptr_, i_, j_;
  int64_t n_edges_;
  std::vector<EdgeRange> parts_;
};

template <typename Real>
void write_vectors(const Edges& edges, const at::Tensor& positions, const at::Tensor& cell, const at::Tensor& shift,
                   at::Tensor& to) {
  const Real* const from = positions.const_data_ptr<Real>();
  const Real* const cells = cell.defined() ? cell.const_data_ptr<Real>() : nullptr;
  const Real* const shifts = shift.const_data_ptr<Real>();
  Real* const vectors = to.mutable_data_ptr<Real>();
  std::vector<EdgeRange> pieces;
  for (const EdgeRange& part : edges.parts()) std::ranges::copy(Edges::pieces_of(part), std::back_inserter(pieces));
  collate::for_each_task(edges.n_threads(), pieces.size(), [&](size_t number) {
    edges.for_each(pieces[number], [&](int64_t edge, size_t molecule, int64_t i, int64_t j) {
      for (int64_t d = 0; d < 3; ++d) {
        double x = static_cast<double>(from[3 * j + d]) - from[3 * i + d];
        if (cells != nullptr) {
          const Real* const s = shifts + 3 * edge;
          const Real* const c = cells + 9 * molecule + d;
          x += static_cast<double>(s[0]) * c[0] + static_cast<double>(s[1]) * c[3] + static_cast<double>(s[2]) * c[6];
        }
        vectors[3 * edge + d] = static_cast<Real>(x);
      }
    });
  });
}

// Contributions of a piece to the atoms and cells of its part.
struct EdgeSums {
  std::vector<double> atoms, cells;
};

template <typename Real>
class TransposedEdges {
 public:
  TransposedEdges(const Edges& edges, const at::Tensor& vectors, const at::Tensor& shift, at::Tensor& positions,
                  at::Tensor& cell)
      : edges_(edges),
        vectors_(vectors.const_data_ptr<Real>()),
        shifts_(cell.numel() == 0 ? nullptr : shift.const_data_ptr<Real>()),
        positions_(positions.mutable_data_ptr<Real>()),
        cells_(cell.mutable_data_ptr<Real>()) {}

  // Parts of small molecules, dealt to the threads, then large molecules, each shared by them.
  void run() {
    std::vector<EdgeRange> small;
    for (const EdgeRange& part : edges_.parts()) {
      if (Edges::pieces_of(part).size() == 1) small.push_back(part);
    }
    collate::for_each_task(edges_.n_threads(), small.size(), [&](size_t number) {
      const EdgeSums sums = sums_of(small[number]);
      write(small[number], {&sums, 1});
    });
    for (const EdgeRange& part : edges_.parts()) {
      const std::vector<EdgeRange> pieces = Edges::pieces_of(part);
      if (pieces.size() == 1) continue;
      std::vector<EdgeSums> sums(pieces.size());
      collate::for_each_task(edges_.n_threads(), pieces.size(),
                             [&](size_t number) { sums[number] = sums_of(pieces[number]); });
      write(part, sums);
    }
  }

 private:
  EdgeSums sums_of(const EdgeRange& piece) const {
    const size_t n_molecules = piece.last_molecule - piece.first_molecule;
    EdgeSums sums{std::vector<double>(static_cast<size_t>(3 * edges_.n_atoms(piece))),
                  std::vector<double>(shifts_ == nullptr ? 0 : 9 * n_molecules)};
    double* const atoms = sums.atoms.data() - 3 * edges_.first_atom(piece);
    double* const cells = sums.cells.data() - 9 * piece.first_molecule;
    edges_.for_each(piece, [&](int64_t edge, size_t molecule, int64_t i, int64_t j) {
      const Real* const vector = vectors_ + 3 * edge;
      for (int64_t d = 0; d < 3; ++d) {
        atoms[3 * i + d] -= vector[d];
        atoms[3 * j + d] += vector[d];
      }
      if (shifts_ == nullptr) return;
      for (size_t k = 0; k < 3; ++k) {
        for (size_t d = 0; d < 3; ++d) {
          cells[9 * molecule + 3 * k + d] +=
              static_cast<double>(shifts_[3 * edge + static_cast<int64_t>(k)]) * vector[d];
        }
      }
    });
    return sums;
  }

  // Adds the pieces in order.
  void write(const EdgeRange& part, std::span<const EdgeSums> sums) const {
    const auto add = [&](const std::vector<double> EdgeSums::* numbers, Real* to) {
      for (size_t k = 0; k < (sums.front().*numbers).size(); ++k) {
        double sum = 0;
        for (const EdgeSums& piece : sums) sum += (piece.*numbers)[k];
        to[k] = static_cast<Real>(sum);
      }
    };
    add(&EdgeSums::atoms, positions_ + 3 * edges_.first_atom(part));
    add(&EdgeSums::cells, cells_ + 9 * part.first_molecule);
  }

  const Edges& edges_;
  const Real *vectors_, *shifts_;
  Real *positions_, *cells_;
};

// Returns r_j - r_i + S cell, (E, 3), from positions (N, 3) and cells (B, 3, 3), which have the type of the shifts;
// without cells the shifts do not count. Both functions return the same bits on any number of threads, and throw
// FieldError for mismatched types or shapes, or edges that are not as above.
at::Tensor edge_vectors(const at::Tensor& positions, const std::optional<at::Tensor>& cell, const EdgeTensors& edges) {
  const int64_t n_atoms = positions.size(0);
  const EdgeTensors checked = check_edges(edges, n_atoms);
  const auto type = checked.shift.scalar_type();
  collate::expect_tensor(positions, "positions", type, {n_atoms, 3});
  at::Tensor cells;
  if (cell) {
    collate::expect_tensor(*cell, "cell", type, {checked.ptr.numel() - 1, 3, 3});
    cells = collate::in_plain_memory(*cell);
  }
  at::Tensor made = at::empty({checked.index.size(1), 3}, positions.options());
  const auto write = type == at::kFloat ? write_vectors<float> : write_vectors<double>;
  write(Edges(checked), collate::in_plain_memory(positions), cells, checked.shift, made);
  return made;
}

// The transpose of that linear map: (N, 3) and (B, 3, 3), the latter empty without cells, from (E, 3). Sums are made in
// float64.
std::pair<at::Tensor, at::Tensor> edge_vectors_transposed(const at::Tensor& vectors, const EdgeTensors& edges,
                                                          int64_t n_atoms, bool has_cell) {
  const EdgeTensors checked = check_edges(edges, n_atoms);
  const auto type = checked.shift.scalar_type();
  const int64_t n_molecules = checked.ptr.numel() - 1;
  collate::expect_tensor(vectors, "vectors", type, {checked.index.size(1), 3});
  std::pair made{at::empty({n_atoms, 3}, vectors.options()),
                 at::empty({has_cell ? n_molecules : 0, 3, 3}, vectors.options())};
  const Edges all(checked);
  const at::Tensor plain = collate::in_plain_memory(vectors);
  if (type == at::kFloat) {
    TransposedEdges<float>(all, plain, checked.shift, made.first, made.second).run();
  } else {
    TransposedEdges<double>(all, plain, checked.shift, made.first, made.second).run();
  }
  return made;
}

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
