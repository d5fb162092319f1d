#include "collate/edges.h"

#include <algorithm>
#include <optional>

#include "collate/arena.h"
#include "collate/copy.h"
#include "collate/survey.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "plan/structure.h"

namespace atompack::collate {
namespace {

using physics::AngularPairs;
using physics::NeighborOptions;
using physics::NeighborSearch;
using physics::PairList;

class EdgeFinder final : public MoleculeVisitor {
 public:
  EdgeFinder(const MoleculeSource& source, const NeighborOptions& options)
      : source_(source), triplet_cutoff_(options.triplet_cutoff), search_(search_options(options)) {}

  // Appends the pairs of a molecule, and those that make triplets, if requested, to `angular`.
  void find(int64_t index, Bytes record, PairList& pairs, AngularPairs* angular) {
    structure_.clear();
    source_.visit(index, record, *this);
    source_.located(index, [&] {
      structure_.find_pairs(search_, pairs);
      if (angular != nullptr) angular->add_structure(pairs, structure_.n_atoms(), *triplet_cutoff_);
    });
  }

  void geometry(const Geometry& geometry) override { structure_.set_positions(geometry); }
  void field(const FieldView& view, Bytes data) override { structure_.read_field(view, data); }

 private:
  // Triplets need lengths.
  static NeighborOptions search_options(NeighborOptions options) {
    options.vectors |= options.triplet_cutoff.has_value();
    return options;
  }

  const MoleculeSource& source_;
  std::optional<double> triplet_cutoff_;
  NeighborSearch search_;
  plan::Structure structure_;
};

// Converts atoms of a molecule to atoms of the batch, for one row of the edge index.
void shift_atoms(std::span<const uint32_t> atoms, int64_t first_atom, int64_t* to) {
  std::ranges::transform(atoms, to, [&](uint32_t atom) { return first_atom + atom; });
}

template <typename Row, typename Item>
void write_rows(std::span<const Row> rows, DType item, int64_t first, DType out, size_t offset, std::byte* arena) {
  static_assert(sizeof(Row) == 3 * sizeof(Item));
  copy_values(arena + offset + static_cast<size_t>(3 * first) * item_bytes(out), out,
              reinterpret_cast<const std::byte*>(rows.data()), item, 3 * rows.size());
}

// Writes triplets from the one with this number on; their edges are in the arena. `for_each` calls its argument with
// both edges of each triplet, counted from `first_edge`.
template <typename ForEach>
void write_triplets(const plan::Edges& edges, int64_t first_edge, int64_t place, std::byte* arena,
                    const ForEach& for_each) {
  const auto* const index = reinterpret_cast<const int64_t*>(arena + edges.index);
  auto* const atoms = reinterpret_cast<int64_t*>(arena + edges.triplet_index);
  auto* const sides = reinterpret_cast<int64_t*>(arena + edges.triplet_edges);
  const int64_t n_edges = edges.count();
  const auto n_triplets = static_cast<int64_t>(edges.count_triplets());
  for_each([&](auto pair, auto other) {
    const int64_t edge_j = first_edge + static_cast<int64_t>(pair);
    const int64_t edge_k = first_edge + static_cast<int64_t>(other);
    atoms[place] = index[edge_j];
    atoms[n_triplets + place] = index[n_edges + edge_j];
    atoms[2 * n_triplets + place] = index[n_edges + edge_k];
    sides[place] = edge_j;
    sides[n_triplets + place] = edge_k;
    ++place;
  });
}

}  // namespace

plan::Edges find_edges(const MoleculeSource& source, const NeighborOptions& options, const plan::BatchPlan& plan,
                       const StagedRecords& staged) {
  plan::Edges edges;
  edges.has_vectors = options.vectors;
  edges.borders = plan::split_by_work(plan);
  edges.parts.resize(edges.borders.size() - 1);
  if (options.triplet_cutoff) edges.angular.resize(edges.parts.size());
  for_each_range(std::ssize(edges.parts), [&](int64_t range) {
    EdgeFinder finder(source, options);
    PairList& pairs = *(edges.parts[static_cast<size_t>(range)] = physics::take_pairs());
    AngularPairs* const angular = edges.has_triplets() ? &edges.angular[static_cast<size_t>(range)] : nullptr;
    for (int64_t i = edges.borders[range]; i < edges.borders[range + 1]; ++i) {
      finder.find(plan.indices[static_cast<size_t>(i)], staged.records[static_cast<size_t>(i)], pairs, angular);
    }
  });
  return edges;
}

// Edges that were found once.

namespace {

Bytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

FieldError unfit(std::string_view what) { return FieldError(cat("kept edges: expected tensors that fit, got ", what)); }

// Throws FieldError unless the first items of the molecules ascend from 0 to `count`.
void check_starts(std::span<const int64_t> starts, int64_t count, std::string_view what) {
  if (starts.empty() || starts.front() != 0 || starts.back() != count || !std::ranges::is_sorted(starts)) {
    throw unfit(what);
  }
}

// Writes the `count` values that `from` has, each plus `base`.
void write_shifted(std::span<const int32_t> from, int64_t base, int64_t* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = base + from[i];
}

template <typename Out>
void widen_shifts(std::span<const int8_t> from, Out* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<Out>(from[i]);
}

void write_shifts(const plan::PrecomputedEdges& kept, int64_t first, int64_t n, DType out, std::byte* to) {
  const auto begin = static_cast<size_t>(3 * first), count = static_cast<size_t>(3 * n);
  if (kept.shift == DType::float32) {
    return copy_values(to, out, kept.shifts.data() + begin * sizeof(float), DType::float32, count);
  }
  const std::span from(reinterpret_cast<const int8_t*>(kept.shifts.data()) + begin, count);
  if (out == DType::float32) return widen_shifts(from, reinterpret_cast<float*>(to));
  if (out == DType::float64) return widen_shifts(from, reinterpret_cast<double*>(to));
  std::vector<float> wide(count);
  widen_shifts(from, wide.data());
  copy_values(to, out, reinterpret_cast<const std::byte*>(wide.data()), DType::float32, count);
}

// Copies the edges of the molecule in this row of the batch.
void write_molecule_edges(const plan::BatchPlan& plan, size_t row, std::byte* arena) {
  const plan::Edges& edges = *plan.edges;
  const plan::PrecomputedEdges& kept = *edges.kept;
  const int64_t molecule = plan.indices[row];
  const int64_t from = kept.edge_ptr[static_cast<size_t>(molecule)];
  const int64_t place = edges.kept_ptr[row], n = edges.kept_ptr[row + 1] - place;
  auto* const index = reinterpret_cast<int64_t*>(arena + edges.index);
  const auto begin = static_cast<size_t>(from), count = static_cast<size_t>(n);
  const auto item = item_bytes(plan.positions), offset = static_cast<size_t>(3 * place) * item;
  write_shifted(kept.i.subspan(begin, count), plan.ptr[row], index + place);
  write_shifted(kept.j.subspan(begin, count), plan.ptr[row], index + edges.count() + place);
  if (edges.has_reversed) std::copy_n(index + place, count, index + 2 * edges.count() + place);
  write_shifts(kept, from, n, edges.shift_dtype,
               arena + edges.shift + static_cast<size_t>(3 * place) * item_bytes(edges.shift_dtype));
  if (edges.has_vectors) {
    copy_values(arena + edges.vector + offset, plan.positions,
                kept.vectors.data() + 3 * begin * item_bytes(kept.floating), kept.floating, 3 * count);
  }
  if (!edges.has_triplets()) return;
  const auto first = static_cast<size_t>(kept.triplet_ptr[static_cast<size_t>(molecule)]);
  const auto last = static_cast<size_t>(kept.triplet_ptr[static_cast<size_t>(molecule) + 1]);
  write_triplets(edges, place, edges.kept_triplet_ptr[row], arena, [&](const auto& write) {
    for (size_t i = first; i < last; ++i) write(kept.edge_j[i], kept.edge_k[i]);
  });
}

std::vector<int64_t> starts_in_batch(std::span<const int64_t> starts, const plan::BatchPlan& plan) {
  std::vector<int64_t> found{0};
  found.reserve(plan.indices.size() + 1);
  for (const int64_t index : plan.indices) {
    const auto molecule = static_cast<size_t>(index);
    found.push_back(found.back() + starts[molecule + 1] - starts[molecule]);
  }
  return found;
}

}  // namespace

std::shared_ptr<const plan::PrecomputedEdges> keep_edges(const physics::NeighborOptions& options,
                                                         const EdgeTensors& tensors) {
  auto kept = std::make_shared<plan::PrecomputedEdges>();
  kept->options = options;
  kept->owner = std::make_shared<EdgeTensors>(tensors);
  kept->edge_ptr = items_of<int64_t>(tensors.edge_ptr);
  const auto index = items_of<int32_t>(tensors.index);
  const size_t n = index.size() / 2;
  kept->i = index.first(n);
  kept->j = index.last(n);
  kept->shift = dtype_of(tensors.shift.scalar_type());
  kept->shifts = bytes_of(tensors.shift);
  check_starts(kept->edge_ptr, static_cast<int64_t>(n), "edges");
  const bool is_known = kept->shift == DType::int8 || kept->shift == DType::float32;
  if (!is_known || kept->shifts.size() != 3 * n * item_bytes(kept->shift)) throw unfit("shifts");
  if (options.vectors) {
    kept->floating = dtype_of(tensors.vector.value().scalar_type());
    kept->vectors = bytes_of(*tensors.vector);
    if (kept->vectors.size() != 3 * n * item_bytes(kept->floating)) throw unfit("vectors");
  }
  if (options.triplet_cutoff) {
    kept->triplet_ptr = items_of<int64_t>(tensors.triplet_ptr.value());
    const auto sides = items_of<int32_t>(tensors.triplet_edges.value());
    kept->edge_j = sides.first(sides.size() / 2);
    kept->edge_k = sides.last(sides.size() / 2);
    check_starts(kept->triplet_ptr, std::ssize(kept->edge_j), "triplets");
  }
  return kept;
}

void add_edge_work(const plan::PrecomputedEdges& kept, plan::BatchPlan& plan) {
  constexpr int64_t kEdgeBytes = 40;
  for (size_t row = 0; row < plan.indices.size(); ++row) {
    const auto molecule = static_cast<size_t>(plan.indices[row]);
    plan.extents[row].work += kEdgeBytes * (kept.edge_ptr[molecule + 1] - kept.edge_ptr[molecule]);
  }
}

plan::Edges take_edges(const plan::PrecomputedEdges& kept, const physics::NeighborOptions& options,
                       const plan::BatchPlan& plan) {
  plan::Edges edges;
  edges.kept = &kept;
  edges.has_vectors = options.vectors;
  edges.takes_triplets = options.triplet_cutoff.has_value();
  edges.kept_ptr = starts_in_batch(kept.edge_ptr, plan);
  edges.kept_triplet_ptr = edges.takes_triplets ? starts_in_batch(kept.triplet_ptr, plan) : std::vector<int64_t>{0};
  return edges;
}

namespace {

void write_kept_edges(const plan::BatchPlan& plan, std::byte* arena) {
  const std::vector<int64_t> borders = plan::split_by_work(plan);
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    const auto end = static_cast<size_t>(borders[static_cast<size_t>(range) + 1]);
    for (auto row = static_cast<size_t>(borders[static_cast<size_t>(range)]); row < end; ++row) {
      write_molecule_edges(plan, row, arena);
    }
  });
}

}  // namespace

void write_edges(const plan::BatchPlan& plan, std::byte* arena) {
  const plan::Edges& edges = *plan.edges;
  if (edges.kept != nullptr) return write_kept_edges(plan, arena);
  auto* const index = reinterpret_cast<int64_t*>(arena + edges.index);
  const int64_t count = edges.count();
  std::vector<int64_t> firsts{0}, first_triplets{0};
  for (const physics::PooledPairs& part : edges.parts)
    firsts.push_back(firsts.back() + static_cast<int64_t>(part->size()));
  for (const AngularPairs& part : edges.angular)
    first_triplets.push_back(first_triplets.back() + static_cast<int64_t>(part.n_triplets));
  for_each_range(std::ssize(edges.parts), [&](int64_t range) {
    const PairList& pairs = *edges.parts[static_cast<size_t>(range)];
    const int64_t first = firsts[static_cast<size_t>(range)];
    size_t begin = 0;
    for (size_t molecule = 0; molecule < pairs.ends.size(); ++molecule) {
      const size_t n = pairs.ends[molecule] - begin;
      const int64_t first_atom = plan.ptr[static_cast<size_t>(edges.borders[range]) + molecule];
      const int64_t place = first + static_cast<int64_t>(begin);
      shift_atoms(std::span(pairs.i).subspan(begin, n), first_atom, index + place);
      shift_atoms(std::span(pairs.j).subspan(begin, n), first_atom, index + count + place);
      begin += n;
    }
    if (edges.has_reversed) {
      std::copy_n(index + first, pairs.size(), index + 2 * count + first);
    }
    write_rows<physics::Shift, float>(pairs.shifts, DType::float32, first, edges.shift_dtype, edges.shift, arena);
    if (edges.has_vectors)
      write_rows<physics::Vector, double>(pairs.vectors, DType::float64, first, plan.positions, edges.vector, arena);
    if (!edges.has_triplets()) return;
    write_triplets(edges, first, first_triplets[static_cast<size_t>(range)], arena,
                   [&](const auto& write) { edges.angular[static_cast<size_t>(range)].for_each_triplet(write); });
  });
}

}  // namespace atompack::collate
