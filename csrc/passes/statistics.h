// Statistics of a dataset, gathered in one pass.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "passes/moments.h"
#include "passes/normal_equations.h"
#include "passes/sweep.h"
#include "plan/molecules/field_set.h"

namespace atompack::collate {

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
  FieldTable unlisted;           // fields in records that no schema lists, numbered after those of the dataset
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
  StatisticsPass(std::shared_ptr<const MoleculeSource> source, std::shared_ptr<const Request> request,
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

  const FieldSet& fields() const { return fields_; }
  const Statistics& found() const { return found_; }

 private:
  std::shared_ptr<const Request> request_;
  FieldSet fields_;
  Sweep sweep_;
  References references_;
  std::optional<double> cutoff_;
  bool with_features_;
  Statistics found_;
};

}  // namespace atompack::collate
