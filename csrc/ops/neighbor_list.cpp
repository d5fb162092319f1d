#include "ops/neighbor_list.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collate/arena.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "physics/neighbors/pair_list.h"
#include "threads/adaptive_parallelism.h"
#include "threads/chunked_loops.h"

namespace atompack::ops {
namespace {

using physics::Lattice;
using physics::NeighborOptions;
using physics::NeighborSearch;
using physics::PairList;
using physics::Vector;

// A larger structure is shared by the threads; smaller ones are dealt to them.
constexpr int64_t kLarge = 4096;
// From this number of atoms, threads pay off however busy the machine is.
constexpr int64_t kWorthThreads = 32'768;
// Parts that finish early leave others for the threads that are late.
constexpr int64_t kPartsPerThread = 4;
// Places or atoms of a large structure that a thread takes at a time.
constexpr size_t kPiece = 2048;
// Preparing a search takes memory for each chunk, and gains little from more.
constexpr int64_t kMaxChunks = 8;
// From this number of atoms, rows are written in the order of the search, from neighbors that are still in the caches:
// per atom 1.3 instead of 1.9 microseconds for 400,000 atoms in random order, 0.95 instead of 0.8 for 50,000.
constexpr size_t kWrittenByPlace = 150'000;

// Memory that was used before costs less than fresh one.
at::Tensor made_from_pool(DType dtype, std::vector<int64_t> shape) {
  return collate::allocate_tensors({{{dtype, std::move(shape)}}}, collate::ArenaKind::heap).views.front();
}

threads::ChunkedLoops chunked_loops(int64_t n_threads) {
  return {static_cast<size_t>(n_threads), [n_threads](size_t n_tasks, const std::function<void(size_t)>& task) {
            collate::for_each_task(n_threads, n_tasks, task);
          }};
}

// A structure that several threads search together, in the order of its boxes; its pairs are written in the order of
// its atoms.
class LargeStructure {
 public:
  LargeStructure(std::span<const double> positions, const Lattice& lattice, const NeighborOptions& options,
                 int64_t n_threads)
      : n_threads_(n_threads), search_(options) {
    const threads::ChunkedLoops loops = chunked_loops(std::min(n_threads, kMaxChunks));
    search_.prepare(positions, lattice, loops);
    if (options.vectors) put_in_order(positions, loops);
    runs_.resize(positions.size() / 3 + 1);
    pieces_.resize((search_.n_places() + kPiece - 1) / kPiece);
    collate::for_each_task(n_threads, pieces_.size(), [&](size_t number) { find(positions, number); });
    runs_.back() = {};
    for (Run& run : runs_) n_pairs_ += std::exchange(run.row, n_pairs_);
  }

  int64_t n_pairs() const { return n_pairs_; }

  // Rows of the results from the first pair of the structure on; `vector` may be null.
  template <typename Real>
  void write(int64_t first_atom, int64_t* i, int64_t* j, Real* shift, Real* vector) const {
    const size_t n_atoms = runs_.size() - 1;
    const bool by_place = n_atoms >= kWrittenByPlace;
    const size_t n = by_place ? search_.n_places() : n_atoms;
    collate::for_each_task(n_threads_, (n + kPiece - 1) / kPiece, [&](size_t number) {
      for (size_t k = kPiece * number; k < std::min(kPiece * (number + 1), n); ++k) {
        if (by_place && !search_.is_atom(k)) continue;
        const size_t atom = by_place ? search_.atom_at(k) : k;
        const Run& run = runs_[atom];
        const auto count = static_cast<size_t>(runs_[atom + 1].row - run.row);
        if (!by_place) {
          const uint32_t* ahead = runs_[std::min(atom + 8, n_atoms)].places;
          for (size_t line = 0; line < 4; ++line) __builtin_prefetch(ahead + 16 * line);
        }
        std::fill_n(i + run.row, count, first_atom + static_cast<int64_t>(atom));
        int64_t* to_j = j + run.row;
        Real* to_shift = shift + 3 * run.row;
        Real* to_vector = vector == nullptr ? nullptr : vector + 3 * run.row;
        search_.visit_pairs(run.self, {run.places, count},
                            [&](uint32_t other, uint32_t at, const physics::Shift& cells) {
                              *to_j++ = first_atom + other;
                              for (const float x : cells.cells) *to_shift++ = x;
                              if (vector == nullptr) return;
                              const physics::Vector3 whole{cells.cells[0], cells.cells[1], cells.cells[2]};
                              const Vector to = search_.vector_to(positions_, run.self, at, whole);
                              for (const double x : to.xyz) *to_vector++ = static_cast<Real>(x);
                            });
      }
    });
  }

 private:
  // The pairs of an atom.
  struct Run {
    const uint32_t* places;
    int64_t row;  // at first their number
    uint32_t self;
  };

  void put_in_order(std::span<const double> positions, const threads::ChunkedLoops& loops) {
    positions_.resize(3 * search_.n_places());
    loops.for_each(search_.n_places(), [&](size_t, size_t first, size_t last) {
      for (size_t place = first; place < last; ++place) {
        std::copy_n(positions.data() + 3 * search_.atom_at(place), 3, positions_.data() + 3 * place);
      }
    });
  }

  void find(std::span<const double> positions, size_t number) {
    const physics::Range range{kPiece * number, std::min(kPiece * (number + 1), search_.n_places())};
    physics::PlacesNear& near = *(pieces_[number] = physics::take_from_pool<physics::PlacesNear>());
    const auto candidates = physics::take_from_pool<physics::Column<uint32_t>>();
    search_.find_places(positions, range, *candidates, near);
    const uint32_t* places = near.places.data();
    for (size_t place = range.first; place < range.last; ++place) {
      if (!search_.is_atom(place)) continue;
      const uint32_t count = near.counts[place - range.first];
      runs_[search_.atom_at(place)] = {places, count, static_cast<uint32_t>(place)};
      places += count;
    }
  }

  int64_t n_threads_;
  NeighborSearch search_;
  physics::Column<double> positions_;  // x, y, z by place, if there are vectors
  std::vector<physics::Pooled<physics::PlacesNear>> pieces_;
  physics::Column<Run> runs_;  // by atom; one more at the end
  int64_t n_pairs_ = 0;
};

// Whole structures: several, or a large one.
struct PairPart {
  size_t first, last;  // structures
  physics::PooledPairs pairs = physics::take_pairs();
  std::unique_ptr<LargeStructure> large = nullptr;

  int64_t size() const { return large ? large->n_pairs() : static_cast<int64_t>(pairs->size()); }
};

class PairFinder {
 public:
  PairFinder(const StructureTensors& structures, const NeighborOptions& options)
      : structures_(structures), options_(options) {}

  void find(int64_t n_threads) {
    parts_.clear();
    size_t first = 0;
    while (first < structures_.size()) {
      size_t last = first;
      while (last < structures_.size() && !is_large(last)) ++last;
      if (first < last) {
        find_small(first, last, n_threads);
      } else {
        find_large(last++, n_threads);
      }
      first = last;
    }
  }

  PairTensors write(const at::Tensor& positions, int64_t n_threads) const {
    std::vector<int64_t> firsts{0};
    for (const PairPart& part : parts_) firsts.push_back(firsts.back() + part.size());
    const int64_t count = firsts.back();
    const DType dtype = collate::dtype_of(positions.scalar_type());
    PairTensors made{made_from_pool(DType::int64, {2, count}), made_from_pool(dtype, {count, 3}), {}};
    if (options_.vectors) made.vector = made_from_pool(dtype, {count, 3});
    if (positions.scalar_type() == at::kFloat) {
      write_as<float>(made, firsts, n_threads);
    } else {
      write_as<double>(made, firsts, n_threads);
    }
    return made;
  }

 private:
  // Only pairs of small structures are sorted by length.
  bool is_large(size_t structure) const { return structures_.n_atoms(structure) >= kLarge && !options_.max_neighbors; }

  // Structures in parts with about as many atoms.
  void find_small(size_t first, size_t last, int64_t n_threads) {
    const std::span ptr = structures_.ptr();
    const int64_t n_parts = n_threads == 1 ? 1 : kPartsPerThread * n_threads;
    const int64_t begin = ptr[first], n_atoms = ptr[last] - begin;
    const size_t first_part = parts_.size();
    for (int64_t part = 1; part <= n_parts && first < last; ++part) {
      const auto end =
          std::lower_bound(ptr.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                           ptr.begin() + static_cast<std::ptrdiff_t>(last), begin + n_atoms * part / n_parts);
      const size_t next = part == n_parts ? last : static_cast<size_t>(end - ptr.begin());
      parts_.push_back({first, next});
      first = next;
    }
    collate::for_each_task(n_threads, parts_.size() - first_part, [&](size_t number) {
      PairPart& part = parts_[first_part + number];
      NeighborSearch search(options_);
      for (size_t structure = part.first; structure < part.last; ++structure) {
        at_molecule(static_cast<int64_t>(structure), [&] {
          search.find(structures_.positions(structure), structures_.lattice(structure), *part.pairs);
        });
      }
    });
  }

  void find_large(size_t structure, int64_t n_threads) {
    parts_.push_back({structure, structure + 1});
    at_molecule(static_cast<int64_t>(structure), [&] {
      parts_.back().large = std::make_unique<LargeStructure>(structures_.positions(structure),
                                                             structures_.lattice(structure), options_, n_threads);
    });
  }

  template <typename Real>
  void write_as(const PairTensors& made, std::span<const int64_t> firsts, int64_t n_threads) const {
    const int64_t count = firsts.back();
    auto* const index = made.index.mutable_data_ptr<int64_t>();
    auto* const shift = made.shift.mutable_data_ptr<Real>();
    auto* const vector = options_.vectors ? made.vector.mutable_data_ptr<Real>() : nullptr;
    collate::for_each_task(n_threads, parts_.size(), [&](size_t number) {
      if (parts_[number].large) return;
      write_index(parts_[number], firsts[number], count, index);
      const PairList& pairs = *parts_[number].pairs;
      write_rows(pairs.shifts, &physics::Shift::cells, shift + 3 * firsts[number]);
      if (vector != nullptr) write_rows(pairs.vectors, &Vector::xyz, vector + 3 * firsts[number]);
    });
    for (size_t number = 0; number < parts_.size(); ++number) {
      const PairPart& part = parts_[number];
      if (!part.large) continue;
      int64_t* const rows = index + firsts[number];
      part.large->write(structures_.ptr()[part.first], rows, rows + count, shift + 3 * firsts[number],
                        vector == nullptr ? nullptr : vector + 3 * firsts[number]);
    }
  }

  void write_index(const PairPart& part, int64_t place, int64_t count, int64_t* index) const {
    size_t begin = 0;
    for (size_t number = 0; number < part.pairs->ends.size(); ++number) {
      const size_t end = part.pairs->ends[number];
      const int64_t first_atom = structures_.ptr()[part.first + number];
      for (size_t pair = begin; pair < end; ++pair) {
        index[place + static_cast<int64_t>(pair)] = first_atom + part.pairs->i[pair];
        index[count + place + static_cast<int64_t>(pair)] = first_atom + part.pairs->j[pair];
      }
      begin = end;
    }
  }

  template <typename Row, typename Member, typename Real>
  static void write_rows(const physics::Column<Row>& rows, Member numbers, Real* to) {
    for (const Row& row : rows) {
      for (const auto x : row.*numbers) *to++ = static_cast<Real>(x);
    }
  }

  Structures64 structures_;
  NeighborOptions options_;
  std::vector<PairPart> parts_;
};

}  // namespace

PairTensors find_neighbors(const StructureTensors& structures, const NeighborOptions& options) {
  static threads::AdaptiveParallelism pace;
  PairFinder finder(structures, options);
  const int64_t n_atoms = structures.positions.size(0);
  const auto find = [&](int64_t n_threads) {
    finder.find(n_threads);
    return finder.write(structures.positions, n_threads);
  };
  if (n_atoms >= kWorthThreads) return find(collate::usable_threads(0));
  return threads::run_adaptively(pace, n_atoms, collate::usable_threads(0), find);
}

}  // namespace atompack::ops
