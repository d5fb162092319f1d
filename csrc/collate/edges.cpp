#include "collate/edges.h"

#include <algorithm>
#include <optional>

#include "collate/copy.h"
#include "collate/precomputed_edges.h"
#include "collate/survey.h"
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
    try {
      structure_.find_pairs(search_, pairs);
      if (angular != nullptr) angular->add_structure(pairs, structure_.n_atoms(), *triplet_cutoff_);
    } catch (DataError& error) {
      source_.locate(error, index);
      throw;
    }
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

// Writes the triplets of a range, whose edges are in the arena.
void write_triplets(const plan::Edges& edges, size_t range, int64_t first_edge, int64_t first, std::byte* arena) {
  const auto* const index = reinterpret_cast<const int64_t*>(arena + edges.index);
  auto* const atoms = reinterpret_cast<int64_t*>(arena + edges.triplet_index);
  auto* const sides = reinterpret_cast<int64_t*>(arena + edges.triplet_edges);
  const int64_t n_edges = edges.count();
  const auto n_triplets = static_cast<int64_t>(edges.count_triplets());
  int64_t place = first;
  edges.angular[range].for_each_triplet([&](size_t pair, size_t other) {
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
    if (edges.has_triplets())
      write_triplets(edges, static_cast<size_t>(range), first, first_triplets[static_cast<size_t>(range)], arena);
  });
}

}  // namespace atompack::collate
