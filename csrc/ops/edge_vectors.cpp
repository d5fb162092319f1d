#include "ops/edge_vectors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "base/error.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"

namespace atompack::ops {
namespace {

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

}  // namespace

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

}  // namespace atompack::ops
