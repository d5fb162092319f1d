// Statistics of a dataset, gathered in one pass.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "passes/sweep.h"
#include "plan/field_set.h"

namespace atompack::passes {

// Running sums from which mean and standard deviation follow.

// Finite values only; the others are counted separately. Sums squared distances from the mean instead of squares of the
// values: the squares of total energies would agree in all significant digits.
struct Moments {
  int64_t count = 0;
  int64_t non_finite = 0;
  double mean = 0;
  double scatter = 0;  // sum of (value - mean)^2
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) {
      ++non_finite;
      return;
    }
    ++count;
    const double distance = value - mean;
    mean += distance / static_cast<double>(count);
    scatter += distance * (value - mean);
    low = std::min(low, value);
    high = std::max(high, value);
  }

  void join(const Moments& other) {
    non_finite += other.non_finite;
    if (other.count == 0) return;
    const auto mine = static_cast<double>(count);
    const auto theirs = static_cast<double>(other.count);
    const double distance = other.mean - mean;
    mean += distance * (theirs / (mine + theirs));
    scatter += other.scatter + distance * distance * (mine * theirs / (mine + theirs));
    count += other.count;
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

// Least squares of energies over compositions: energy = sum over elements of count x reference energy.
constexpr size_t kElements = 256;  // atomic numbers are one byte

struct ElementCount {
  uint8_t number;
  int64_t atoms;
};

// Sums over molecules of composition c, energy e and weight w. Absent elements take no memory.
class NormalEquations {
 public:
  void add(std::span<const ElementCount> composition, double energy, double weight);
  void join(const NormalEquations& other);

  std::vector<double> gram() const;                                      // (256, 256) row-major: sum of w c c^T
  const std::array<double, kElements>& right() const { return right_; }  // sum of w c e
  double squares() const { return squares_; }                            // sum of w e^2

 private:
  std::array<std::vector<double>, kElements> rows_;  // of the Gram matrix; empty until the element occurs
  std::array<double, kElements> right_{};
  double squares_ = 0;
};

struct Statistics {
  int64_t n_molecules = 0;
  int64_t n_atoms = 0;
  std::unordered_map<int64_t, int64_t> sizes;  // number of atoms -> number of molecules
  std::array<int64_t, kElements> atoms_of{};   // by atomic number
  std::array<int64_t, kElements> molecules_of{};
  Moments energy;
  Moments energy_per_atom;                            // of molecules with atoms
  Moments forces;                                     // of force components
  double largest_force = 0;                           // length of the longest finite force vector
  int64_t largest_force_at = -1;                      // the first molecule with that force; -1: none
  std::array<double, kElements> force_squares{};      // sums of squares of finite force components, by element
  std::array<int64_t, kElements> force_components{};  // their number
  std::array<Moments, kElements> isolated_atoms;      // energies of molecules of one isolated atom
  std::vector<Moments> features;                      // by column of stored features
  int64_t n_pairs = 0;                                // neighbors within the cutoff, both (i, j, S) and (j, i, -S)
  NormalEquations equations;                          // molecules with atoms and a finite energy
  NormalEquations equations_per_atom;                 // the same, each divided by its number of atoms
  plan::FieldTable unlisted;     // fields in records that no schema lists, numbered after those of the dataset
  std::vector<int64_t> present;  // per field: the number of molecules that have it

  // For equal lengths, the earlier call's molecule is kept.
  void keep_larger(double length, int64_t molecule);
  // `other` covers the molecules after these.
  void join(const Statistics& other, size_t n_listed);
};

// Reads molecules as a request selects them: its fields, and its rule for missing ones.
class StatisticsPass {
 public:
  using References = std::array<double, kElements>;

  // `references` by atomic number are subtracted from the energies before these enter the equations: with a good guess,
  // no large term remains that could swamp the residual. `cutoff` nullopt: neighbors are not counted. `features`: adds
  // up stored features too, selected or not.
  StatisticsPass(std::shared_ptr<const MoleculeSource> source, std::shared_ptr<const plan::Request> request,
                 std::optional<Selection> selection, const References& references, std::optional<double> cutoff,
                 bool features, int n_threads)
      : request_(std::move(request)),
        fields_(source->schemas(), *request_),
        sweep_(std::move(source), std::move(selection), n_threads),
        references_(references),
        cutoff_(cutoff),
        with_features_(features) {}

  int64_t size() const { return sweep_.size(); }

  // Runs for a while; returns the number of molecules processed so far. Throws CorruptFileError, FieldError, IoError,
  // including those of the neighbor search.
  int64_t advance();

  const plan::FieldSet& fields() const { return fields_; }
  const Statistics& found() const { return found_; }

 private:
  std::shared_ptr<const plan::Request> request_;
  plan::FieldSet fields_;
  Sweep sweep_;
  References references_;
  std::optional<double> cutoff_;
  bool with_features_;
  Statistics found_;
};

}  // namespace atompack::passes
