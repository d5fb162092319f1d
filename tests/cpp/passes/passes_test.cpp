#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "message_of.h"
#include "model/memory_source.h"
#include "passes/statistics.h"
#include "passes/verify.h"

namespace atompack::passes {
namespace {

using test::MemoryField;
using test::MemoryMolecule;
using test::MemorySource;

std::shared_ptr<const MemorySource> memory(std::vector<MemoryMolecule> molecules) {
  return std::make_shared<const MemorySource>(std::move(molecules), std::vector{test::molecule_schema()});
}

Statistics found(const std::shared_ptr<const MemorySource>& source, std::optional<Selection> selection, int n_threads,
                 const StatisticsPass::References& references = {}) {
  StatisticsPass pass(source, std::make_shared<const plan::Request>(), std::move(selection), references, std::nullopt,
                      false, n_threads);
  while (pass.advance() < pass.size()) continue;
  return pass.found();
}

TEST(StatisticsPass, EqualsSumsOverAllMolecules) {
  const auto source = memory(test::random_molecules(5000));
  double sum = 0, squares = 0;
  int64_t n_energies = 0, n_atoms = 0, n_hydrogen = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    const MemoryMolecule& molecule = source->molecule(i);
    n_atoms += molecule.n_atoms();
    n_hydrogen += std::ranges::count(molecule.numbers, 1);
    if (const MemoryField* const energy = molecule.find(Scope::builtin, "energy")) {
      sum += energy->numbers.front();
      squares += energy->numbers.front() * energy->numbers.front();
      ++n_energies;
    }
  }
  const Statistics one = found(source, std::nullopt, 1), many = found(source, std::nullopt, 3);
  EXPECT_EQ(one.n_molecules, 5000);
  EXPECT_EQ(one.n_atoms, n_atoms);
  EXPECT_EQ(one.atoms_of[1], n_hydrogen);
  EXPECT_EQ(one.energy.count, n_energies);
  EXPECT_NEAR(one.energy.mean, sum / static_cast<double>(n_energies), 1e-9);
  EXPECT_NEAR(one.energy.scatter, squares - sum * sum / static_cast<double>(n_energies), 1e-6);
  EXPECT_EQ(many.energy.mean, one.energy.mean) << "the sums do not depend on the number of threads";
  EXPECT_EQ(many.largest_force_at, one.largest_force_at);
  EXPECT_EQ(many.equations.right(), one.equations.right());
}

TEST(StatisticsPass, CountsASelectionAndValuesThatAreNotFinite) {
  std::vector<MemoryMolecule> molecules = test::random_molecules(9);
  molecules[1].fields.front().numbers.front() = NAN;
  const auto numbers = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{1, 2, 2, 0});
  const Statistics some = found(memory(molecules), Selection{*numbers, numbers}, 2);
  EXPECT_EQ(some.n_molecules, 4);
  EXPECT_EQ(some.energy.count, 2);
  EXPECT_EQ(some.energy.non_finite, 1);
  EXPECT_EQ(some.energy.low, some.energy.high) << "of the same molecule, twice";
}

TEST(StatisticsPass, EquationsHaveTheEnergiesOfTheAtoms) {
  // E = 3 H + 5 O.
  std::vector<MemoryMolecule> molecules = test::random_molecules(60);
  for (MemoryMolecule& molecule : molecules) {
    const auto n_hydrogen = std::ranges::count(molecule.numbers, 1), n_oxygen = molecule.n_atoms() - n_hydrogen;
    molecule.fields = {test::energy_of(3.0 * static_cast<double>(n_hydrogen) + 5.0 * static_cast<double>(n_oxygen))};
  }
  StatisticsPass::References references{};
  references[1] = 3;
  references[8] = 5;
  const auto source = memory(molecules);
  const NormalEquations zero = found(source, std::nullopt, 1, references).equations;
  EXPECT_EQ(zero.squares(), 0) << "nothing is left of the energies";
  const NormalEquations equations = found(source, std::nullopt, 1).equations;
  const std::vector<double> gram = equations.gram();
  for (const size_t element : {size_t{1}, size_t{8}}) {
    EXPECT_NEAR(gram[element * kElements + 1] * 3 + gram[element * kElements + 8] * 5, equations.right()[element],
                1e-9);
  }
}

TEST(Verifier, FindsEveryFault) {
  std::vector<MemoryMolecule> molecules = test::random_molecules(3000);
  molecules[2].fields.front().is_damaged = true;
  molecules[2501].fields.front().is_damaged = true;
  molecules[2999].fields.front().is_damaged = true;
  molecules[10].fields.front().numbers.front() = INFINITY;
  Verifier verifier(memory(molecules), 2);
  Findings all;
  while (verifier.advance() < verifier.size()) all.join(verifier.take());
  all.join(verifier.take());
  EXPECT_EQ(all.n_faults, 3);
  std::vector<int64_t> damaged;
  for (const MoleculeFault& fault : all.faults) damaged.push_back(fault.molecule);
  EXPECT_EQ(damaged, (std::vector<int64_t>{2, 2501, 2999}));
  EXPECT_NE(all.faults.front().message.find("value: damaged (molecule 2"), std::string::npos);
  EXPECT_EQ(all.non_finite, (std::map<plan::FieldId, int64_t>{{{Scope::builtin, "energy"}, 1}}));
}

}  // namespace
}  // namespace atompack::passes
