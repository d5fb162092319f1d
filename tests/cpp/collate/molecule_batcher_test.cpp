#include "collate/molecule_batcher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>

#include "collate/edges.h"
#include "collate/expect_batch.h"
#include "collate/prefetcher.h"
#include "collate/resident_builder.h"
#include "message_of.h"
#include "model/memory_source.h"
#include "model/sources/resident.h"

namespace atompack::collate {
namespace {

using test::energy_of;
using test::expect_batch;
using test::MemoryField;
using test::MemoryMolecule;
using test::MemorySource;
using test::random_molecules;
using test::random_numbers;

using Indices = std::vector<int64_t>;

const std::vector<MoleculeSchema> kSchemas{test::molecule_schema()};

std::shared_ptr<const plan::Request> request_with(const auto& change) {
  plan::Request request;
  change(request);
  return std::make_shared<const plan::Request>(request);
}

std::shared_ptr<const plan::Request> plain_request() {
  return request_with([](plan::Request&) {});
}

Batch make(const MoleculeBatcher& batcher, const Indices& indices, Parallelism parallelism = Parallelism::serial) {
  return std::get<Batch>(batcher.make(indices, ArenaKind::heap, parallelism));
}

std::shared_ptr<const MemorySource> memory(std::vector<MemoryMolecule> molecules,
                                           std::vector<MoleculeSchema> schemas = kSchemas, int64_t work = 100) {
  return std::make_shared<const MemorySource>(std::move(molecules), std::move(schemas), work);
}

TEST(MoleculeBatcher, JoinsMoleculesInAnyOrder) {
  const auto source = memory(random_molecules(20));
  const MoleculeBatcher batcher(source, plain_request());
  for (const Indices& indices : {Indices{3, 17, 3, 0, 19}, Indices{5}, Indices{0, 12}, Indices{}}) {
    expect_batch(make(batcher, indices), *source, indices);
  }
}

TEST(MoleculeBatcher, ThreadsMakeTheSameBatch) {
  const auto source = memory(random_molecules(200), kSchemas, int64_t{1} << 20);
  const MoleculeBatcher batcher(source, plain_request());
  Indices indices(200);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(7 * i % 200);
  for (int i = 0; i < 5; ++i) expect_batch(make(batcher, indices, Parallelism::automatic), *source, indices);
}

// Values of each molecule differ in shape and presence, in a way that no schema tells.
TEST(MoleculeBatcher, SurveysWhatNoSchemaDeclares) {
  std::vector<MemoryMolecule> molecules = random_molecules(12);
  std::mt19937 random(1);
  for (size_t i = 0; i < molecules.size(); ++i) {
    std::vector<MemoryField>& fields = molecules[i].fields;
    const FieldType numbers{Level::molecule, ValueKind::numeric, i % 2 == 0 ? DType::float32 : DType::float64};
    const auto width = static_cast<int64_t>(i % 3);
    if (i % 5 != 0) {
      fields.push_back(
          {Scope::molecule_property, "ragged", numbers, {width}, random_numbers(static_cast<size_t>(width), random)});
    }
    if (i % 2 == 0) {
      fields.push_back({Scope::molecule_property,
                        "label",
                        {Level::molecule, ValueKind::string, DType::uint8},
                        {},
                        {},
                        std::string(i, 'x')});
    }
    if (i % 4 == 1) {
      fields.push_back({Scope::atom_property,
                        "tags",
                        {Level::atom, ValueKind::numeric, DType::int64},
                        {},
                        std::vector<double>(molecules[i].numbers.size(), 7)});
    }
  }
  const auto source = memory(molecules);
  const MoleculeBatcher batcher(source, plain_request());
  for (const Indices& indices : {Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Indices{10, 2}, Indices{4, 4, 1}}) {
    expect_batch(make(batcher, indices), *source, indices);
  }
  const Batch two = make(batcher, {1, 2});
  const auto ragged = static_cast<size_t>(two.table->find(Scope::molecule_property, "ragged"));
  EXPECT_TRUE(std::holds_alternative<TensorList>(two.values[ragged])) << "two shapes do not stack";
}

TEST(MoleculeBatcher, NumbersOfAtomsCountWithinTheBatch) {
  std::vector<MemoryMolecule> molecules = random_molecules(6);
  const FieldType type{Level::edge, ValueKind::numeric, DType::int64, true};
  for (MemoryMolecule& molecule : molecules) {
    molecule.n_edges = molecule.n_atoms() * 2;
    MemoryField centers{Scope::builtin, "radial_center_idx", type, {}};
    for (int64_t edge = 0; edge < molecule.n_edges; ++edge) centers.numbers.push_back(static_cast<double>(edge / 2));
    molecule.fields.push_back(centers);
  }
  std::vector<MoleculeSchema> schemas = kSchemas;
  schemas.front().fields.push_back({Scope::builtin, "radial_center_idx", type, Shape{}});
  const auto source = memory(molecules, schemas);
  const Indices indices{4, 1, 5, 1};
  expect_batch(make(MoleculeBatcher(source, plain_request()), indices), *source, indices);
}

TEST(MoleculeBatcher, CastsAndSelectsFields) {
  const auto source = memory(random_molecules(8));
  const auto request = request_with([](plan::Request& to) {
    to.excluded = {{Scope::builtin, "energy"}};
    to.floating = DType::float64;
  });
  const Batch batch = make(MoleculeBatcher(source, request), {1, 2, 3});
  ASSERT_EQ(batch.values.size(), 1U);
  EXPECT_EQ(std::get<at::Tensor>(batch.values.front()).scalar_type(), at::kDouble);
  expect_batch(batch, *source, Indices{1, 2, 3});
}

TEST(MoleculeBatcher, DropsOrRefusesMoleculesThatLackAField) {
  const auto source = memory(random_molecules(12));
  const auto drop = request_with([](plan::Request& request) { request.missing = plan::Missing::drop; });
  expect_batch(make(MoleculeBatcher(source, drop), {0, 1, 2, 3, 4, 5, 7, 8}), *source, Indices{1, 2, 5, 7});
  const auto refuse = request_with([](plan::Request& request) { request.missing = plan::Missing::error; });
  const MoleculeBatcher strict(source, refuse);
  expect_batch(make(strict, {7, 1}), *source, Indices{7, 1});
  const std::string error = test::message_of<FieldError>([&] { make(strict, {7, 4}); });
  EXPECT_NE(error.find("molecule 4, field 'forces'"), std::string::npos) << error;
}

TEST(MoleculeBatcher, DamageIsAnErrorOfABatchAndAFaultOfAMolecule) {
  std::vector<MemoryMolecule> molecules = random_molecules(5);
  molecules[2].fields.front().is_damaged = true;
  const MoleculeBatcher batcher(memory(molecules), plain_request());
  EXPECT_EQ(test::corrupt([&] { make(batcher, {1, 2}); }), "value: damaged");
  const Batch one = batcher.make_one(2);
  ASSERT_EQ(one.faults.size(), 1U);
  EXPECT_EQ(one.table->fields()[static_cast<size_t>(one.faults.front().field)].id.key, "energy");
}

// Edges.

using Pair = std::tuple<int64_t, int64_t, std::array<double, 3>>;

MemoryField cell_of(double length) {
  return {.key = "cell",
          .type = {Level::molecule, ValueKind::numeric, DType::float64},
          .row_shape = {3, 3},
          .numbers = {length, 0, 0, 0, length, 0, 0, 0, length}};
}

MemoryField periodic() {
  return {.key = "pbc",
          .type = {Level::molecule, ValueKind::numeric, DType::boolean},
          .row_shape = {3},
          .numbers = {1, 1, 1}};
}

std::vector<MoleculeSchema> schema_with_cells() {
  std::vector<MoleculeSchema> schemas = kSchemas;
  for (const MemoryField& field : {cell_of(1), periodic()}) {
    schemas.front().fields.push_back({field.scope, field.key, field.type, field.row_shape});
  }
  return schemas;
}

std::vector<MemoryMolecule> molecules_with_cells(size_t n) {
  std::vector<MemoryMolecule> molecules = random_molecules(n, 3);
  for (size_t i = 0; i < n; i += 2) {
    molecules[i].fields.push_back(cell_of(3 + static_cast<double>(i)));
    molecules[i].fields.push_back(periodic());
  }
  return molecules;
}

// All pairs of all images within two cells.
std::map<Pair, int> slow_pairs(const MemoryMolecule& molecule, int64_t first_atom, double cutoff) {
  std::map<Pair, int> pairs;
  const MemoryField* const cell = molecule.find(Scope::builtin, "cell");
  const int reach = cell == nullptr ? 0 : 2;
  const double length = cell == nullptr ? 0 : cell->numbers.front();
  for (int64_t i = 0; i < molecule.n_atoms(); ++i) {
    for (int64_t j = 0; j < molecule.n_atoms(); ++j) {
      for (int a = -reach; a <= reach; ++a) {
        for (int b = -reach; b <= reach; ++b) {
          for (int c = -reach; c <= reach; ++c) {
            if (i == j && a == 0 && b == 0 && c == 0) continue;
            const std::array<double, 3> shift{double(a), double(b), double(c)};
            double square = 0;
            for (size_t k = 0; k < 3; ++k) {
              const auto axis = static_cast<int64_t>(k);
              const double d = molecule.positions[static_cast<size_t>(3 * j + axis)] -
                               molecule.positions[static_cast<size_t>(3 * i + axis)] + shift[k] * length;
              square += d * d;
            }
            if (square < cutoff * cutoff) ++pairs[{first_atom + i, first_atom + j, shift}];
          }
        }
      }
    }
  }
  return pairs;
}

const physics::NeighborOptions kNeighbors{.cutoff = 2.5, .full = true, .vectors = true};

TEST(MoleculeBatcher, EdgesAreThoseOfASlowSearch) {
  const auto source = memory(molecules_with_cells(10), schema_with_cells());
  const auto request = request_with([](plan::Request& to) { to.neighbors = kNeighbors; });
  const Indices indices{2, 1, 8, 2, 5, 0};
  const Batch batch = make(MoleculeBatcher(source, request), indices);
  std::map<Pair, int> expected, found;
  int64_t first_atom = 0;
  for (const int64_t index : indices) {
    expected.merge(slow_pairs(source->molecule(index), first_atom, kNeighbors.cutoff));
    first_atom += source->molecule(index).n_atoms();
  }
  const std::vector<double> index = test::doubles(batch.edges[0]), shift = test::doubles(batch.edges[1]);
  const size_t n_edges = shift.size() / 3;
  for (size_t edge = 0; edge < n_edges; ++edge) {
    const std::array<double, 3> cells{shift[3 * edge], shift[3 * edge + 1], shift[3 * edge + 2]};
    ++found[{static_cast<int64_t>(index[edge]), static_cast<int64_t>(index[n_edges + edge]), cells}];
  }
  EXPECT_GT(n_edges, 20U);
  EXPECT_EQ(found, expected);
}

// Edges of every molecule by itself, numbered within it.
std::shared_ptr<const plan::PrecomputedEdges> edges_of(const MoleculeBatcher& batcher) {
  Indices ends{0};
  std::vector<at::Tensor> index, shift, vector;
  for (int64_t molecule = 0; molecule < batcher.size(); ++molecule) {
    const Batch one = make(batcher, {molecule});
    index.push_back(one.edges[0]);
    shift.push_back(one.edges[1]);
    vector.push_back(one.edges[2]);
    ends.push_back(ends.back() + one.edges[1].size(0));
  }
  return keep_edges(kNeighbors, {.edge_ptr = at::tensor(ends, at::kLong),
                                 .index = at::cat(index, 1).to(at::kInt),
                                 .shift = at::cat(shift).to(at::kChar),
                                 .vector = at::cat(vector),
                                 .triplet_ptr = std::nullopt,
                                 .triplet_edges = std::nullopt});
}

TEST(MoleculeBatcher, KeptEdgesAreThoseOfASearch) {
  const auto source = memory(molecules_with_cells(8), schema_with_cells());
  const auto request = request_with([](plan::Request& to) { to.neighbors = kNeighbors; });
  const MoleculeBatcher searching(source, request);
  const MoleculeBatcher keeping(source, request, edges_of(searching));
  const Indices indices{6, 1, 6, 4, 0};
  const Batch expected = make(searching, indices), batch = make(keeping, indices);
  ASSERT_EQ(batch.edges.size(), expected.edges.size());
  for (size_t i = 0; i < batch.edges.size(); ++i) EXPECT_TRUE(at::equal(batch.edges[i], expected.edges[i])) << i;
  expect_batch(batch, *source, indices);
}

// Molecules in one block of memory.

TEST(ResidentBuilder, BatchesAreThoseOfTheSource) {
  const auto source = memory(molecules_with_cells(10), schema_with_cells());
  const auto request = plain_request();
  const Indices numbers{9, 2, 2, 0, 5};
  ResidentBuilder builder(source, numbers, {request}, "block");
  builder.measure(0, 3);
  builder.measure(3, 5);
  const auto block = std::make_shared<std::vector<std::byte>>(builder.bytes());
  builder.copy(2, 5, *block);
  builder.copy(0, 2, *block);
  const auto resident = std::make_shared<const ResidentSource>(builder.tables(), *block, builder.size(), block);
  const Batch batch = make(MoleculeBatcher(resident, request), {4, 0, 1, 3});
  expect_batch(batch, *source, Indices{5, 9, 2, 0}, Indices{5, 9, 2, 0});
}

// Batches ahead of their use.

AnyBatch take(Prefetcher& prefetcher) {
  for (;;) {
    if (std::optional<AnyBatch> batch = prefetcher.take(std::chrono::milliseconds(50))) return std::move(*batch);
  }
}

TEST(Prefetcher, ReturnsBatchesAndErrorsInOrder) {
  std::vector<MemoryMolecule> molecules = random_molecules(40);
  molecules[17].fields.front().is_damaged = true;
  const auto source = memory(molecules);
  Prefetcher prefetcher(std::make_shared<const MoleculeBatcher>(source, plain_request()), 3, 4, ArenaKind::heap);
  for (int64_t i = 0; i < 40; ++i) prefetcher.submit({i, 39 - i, i});
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(prefetcher.size(), static_cast<size_t>(40 - i));
    if (i == 17 || i == 22) {
      EXPECT_THROW(take(prefetcher), CorruptFileError);
    } else {
      expect_batch(std::get<Batch>(take(prefetcher)), *source, Indices{i, 39 - i, i});
    }
  }
}

}  // namespace
}  // namespace atompack::collate
