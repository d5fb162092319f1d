#include "collate/edges.h"

#include <algorithm>

#include "collate/fill/copy.h"
#include "collate/survey.h"
#include "collate/torch_threads.h"
#include "plan/molecules/structure.h"

namespace atompack::collate {
namespace {

using physics::NeighborOptions;
using physics::NeighborSearch;
using physics::PairList;

class EdgeFinder final : public MoleculeVisitor {
 public:
  EdgeFinder(const MoleculeSource& source, const NeighborOptions& options) : source_(source), search_(options) {}

  void find(int64_t index, Bytes record, PairList& pairs) {
    structure_.clear();
    source_.visit(index, record, *this);
    try {
      structure_.find_pairs(search_, pairs);
    } catch (DataError& error) {
      source_.locate(error, index);
      throw;
    }
  }

  void geometry(const Geometry& geometry) override { structure_.set_positions(geometry); }
  void field(const FieldView& view, Bytes data) override { structure_.read_field(view, data); }

 private:
  const MoleculeSource& source_;
  NeighborSearch search_;
  Structure structure_;
};

// Converts atoms of a molecule to atoms of the batch, for one row of the edge index.
void shift_atoms(std::span<const uint32_t> atoms, int64_t first_atom, int64_t* to) {
  std::ranges::transform(atoms, to, [&](uint32_t atom) { return first_atom + atom; });
}

template <typename Row, typename Item>
void write_rows(const std::vector<Row>& rows, DType item, int64_t first, DType out, size_t offset, std::byte* arena) {
  static_assert(sizeof(Row) == 3 * sizeof(Item));
  copy_values(arena + offset + static_cast<size_t>(3 * first) * item_bytes(out), out,
              reinterpret_cast<const std::byte*>(rows.data()), item, 3 * rows.size());
}

}  // namespace

Edges find_edges(const MoleculeSource& source, const NeighborOptions& options, const BatchPlan& plan,
                 const StagedRecords& staged) {
  Edges edges;
  edges.has_vectors = options.vectors;
  edges.borders = split_by_work(plan);
  edges.parts.resize(edges.borders.size() - 1);
  for_each_range(std::ssize(edges.parts), [&](int64_t range) {
    EdgeFinder finder(source, options);
    PairList& pairs = *(edges.parts[static_cast<size_t>(range)] = physics::take_pairs());
    for (int64_t i = edges.borders[range]; i < edges.borders[range + 1]; ++i) {
      finder.find(plan.indices[static_cast<size_t>(i)], staged.records[static_cast<size_t>(i)], pairs);
    }
  });
  return edges;
}

void write_edges(const BatchPlan& plan, std::byte* arena) {
  const Edges& edges = *plan.edges;
  auto* const index = reinterpret_cast<int64_t*>(arena + edges.index);
  const int64_t count = edges.count();
  std::vector<int64_t> firsts{0};
  for (const physics::PooledPairs& part : edges.parts)
    firsts.push_back(firsts.back() + static_cast<int64_t>(part->size()));
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
    write_rows<physics::Shift, float>(pairs.shifts, DType::float32, first, plan.positions, edges.shift, arena);
    if (!edges.has_vectors) return;
    write_rows<physics::Vector, double>(pairs.vectors, DType::float64, first, plan.positions, edges.vector, arena);
  });
}

}  // namespace atompack::collate
