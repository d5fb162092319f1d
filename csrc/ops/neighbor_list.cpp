#include "ops/neighbor_list.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "io/huge_pages.h"
#include "physics/neighbors/pair_pool.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {
namespace {

using physics::Lattice;
using physics::NeighborOptions;
using physics::NeighborSearch;
using physics::PairList;

// A larger structure is shared by the threads; smaller ones are dealt to them.
constexpr int64_t kLarge = 4096;
// With so many atoms, threads pay off however busy the machine is.
constexpr int64_t kWorthThreads = 32'768;
// Parts that finish early leave others for the threads that are late.
constexpr int64_t kPartsPerThread = 4;
// Atoms of a part of a large structure: lists of a few megabytes, whose memory the pool keeps.
constexpr size_t kPartAtoms = 4096;

template <typename T>
std::span<const T> items_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

// Structures with all numbers in float64.
class Structures64 {
 public:
  explicit Structures64(const StructureTensors& given) {
    const auto type = given.positions.scalar_type();
    if (type != at::kFloat && type != at::kDouble) {
      throw FieldError(cat("positions: expected Float or Double, got ", c10::toString(type))).at_field("positions");
    }
    if (given.positions.dim() != 2 || given.positions.size(1) != 3) {
      throw FieldError(cat("positions: expected shape (atoms, 3), got ", given.positions.sizes()))
          .at_field("positions");
    }
    const int64_t n_atoms = given.positions.size(0);
    expect_tensor(given.positions, "positions", type, {n_atoms, 3});
    expect_ptr(given.ptr, n_atoms);
    const int64_t n = given.ptr.numel() - 1;
    positions_ = in_plain_memory(given.positions).to(at::kDouble);
    ptr_ = given.ptr;
    if (given.cell) {
      expect_tensor(*given.cell, "cell", type, {n, 3, 3});
      cell_ = in_plain_memory(*given.cell).to(at::kDouble);
    }
    if (given.periodic) {
      if (!given.cell) throw FieldError("pbc: expected a cell too").at_field("pbc");
      expect_tensor(*given.periodic, "pbc", at::kBool, {n, 3});
      periodic_ = in_plain_memory(*given.periodic);
    }
  }

  std::span<const int64_t> ptr() const { return items_of<int64_t>(ptr_); }
  size_t size() const { return ptr().size() - 1; }
  int64_t n_atoms(size_t structure) const { return ptr()[structure + 1] - ptr()[structure]; }
  std::span<const double> positions(size_t structure) const {
    return items_of<double>(positions_)
        .subspan(3 * static_cast<size_t>(ptr()[structure]), 3 * static_cast<size_t>(n_atoms(structure)));
  }
  Lattice lattice(size_t structure) const {
    physics::Matrix3 cell{};
    std::array<bool, 3> periodic{};
    if (cell_.defined()) {
      const double* from = cell_.const_data_ptr<double>() + 9 * structure;
      for (auto& row : cell) {
        for (double& x : row) x = *from++;
      }
      periodic.fill(true);
    }
    if (periodic_.defined()) std::copy_n(periodic_.const_data_ptr<bool>() + 3 * structure, 3, periodic.begin());
    return {cell, periodic};
  }

 private:
  at::Tensor positions_, cell_, periodic_, ptr_;
};

// Pairs of consecutive atoms: whole structures, or a part of one.
struct PairPart {
  size_t first, last;  // structures
  physics::PooledPairs pairs = physics::take_pairs();
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
      while (last < structures_.size() && (structures_.n_atoms(last) < kLarge)) ++last;
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
    for (const PairPart& part : parts_) firsts.push_back(firsts.back() + static_cast<int64_t>(part.pairs->size()));
    const int64_t count = firsts.back();
    PairTensors made{at::empty({2, count}, positions.options().dtype(at::kLong)),
                     at::empty({count, 3}, positions.options())};
    for (const at::Tensor& tensor : {made.index, made.shift}) {
      io::prefer_huge_pages(tensor.mutable_data_ptr(), tensor.nbytes());
    }
    const auto write_one = [&](size_t number) {
      write_index(parts_[number], firsts[number], count, made.index.mutable_data_ptr<int64_t>());
      if (positions.scalar_type() == at::kFloat) {
        write_shift(*parts_[number].pairs, made.shift.mutable_data_ptr<float>() + 3 * firsts[number]);
      } else {
        write_shift(*parts_[number].pairs, made.shift.mutable_data_ptr<double>() + 3 * firsts[number]);
      }
    };
    for_each_range(n_threads, [&](int64_t thread) {
      const auto share = static_cast<size_t>(thread), step = static_cast<size_t>(n_threads);
      for (size_t part = share; part < parts_.size(); part += step) write_one(part);
    });
    return made;
  }

 private:
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
    for_each_range(std::ssize(parts_) - static_cast<int64_t>(first_part), [&](int64_t number) {
      PairPart& part = parts_[first_part + static_cast<size_t>(number)];
      NeighborSearch search(options_);
      for (size_t structure = part.first; structure < part.last; ++structure) {
        located(structure,
                [&] { search.find(structures_.positions(structure), structures_.lattice(structure), *part.pairs); });
      }
    });
  }

  void find_large(size_t structure, int64_t n_threads) {
    NeighborSearch search(options_);
    const std::span positions = structures_.positions(structure);
    located(structure, [&] { search.prepare(positions, structures_.lattice(structure)); });
    const size_t n_atoms = positions.size() / 3, n_parts = (n_atoms + kPartAtoms - 1) / kPartAtoms;
    const size_t first_part = parts_.size();
    for (size_t part = 0; part < n_parts; ++part) parts_.push_back({structure, structure + 1});
    const auto find_one = [&](size_t part) {
      NeighborSearch::Scratch scratch(options_);
      search.find_part(positions, {n_atoms * part / n_parts, n_atoms * (part + 1) / n_parts}, scratch,
                       *parts_[first_part + part].pairs);
    };
    for_each_range(n_threads, [&](int64_t thread) {
      const auto share = static_cast<size_t>(thread), step = static_cast<size_t>(n_threads);
      for (size_t part = share; part < n_parts; part += step) find_one(part);
    });
  }

  template <typename Body>
  static void located(size_t structure, const Body& body) {
    try {
      body();
    } catch (DataError& error) {
      error.at_molecule(static_cast<int64_t>(structure));
      throw;
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

  template <typename Real>
  static void write_shift(const PairList& pairs, Real* to) {
    for (const physics::Shift& shift : pairs.shifts) {
      for (const float cells : shift.cells) *to++ = static_cast<Real>(cells);
    }
  }

  Structures64 structures_;
  NeighborOptions options_;
  std::vector<PairPart> parts_;
};

}  // namespace

PairTensors find_neighbors(const StructureTensors& structures, const NeighborOptions& options) {
  static AdaptiveParallelism pace;
  PairFinder finder(structures, options);
  const int64_t n_atoms = structures.positions.size(0);
  const auto find = [&](int64_t n_threads) {
    finder.find(n_threads);
    return finder.write(structures.positions, n_threads);
  };
  if (n_atoms >= kWorthThreads) return find(usable_threads(0));
  return run_adaptively(pace, n_atoms, usable_threads(0), find);
}

}  // namespace atompack::collate
