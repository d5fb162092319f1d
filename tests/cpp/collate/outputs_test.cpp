#include "collate/outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collate/expect_batch.h"
#include "message_of.h"

namespace atompack::collate {
namespace {

using plan::Output;
using plan::OutputKind;
using test::doubles;
using test::expect_same;

// Two molecules, of two atoms and of one, in a cell of (2, 4, 8) and with two edges.
const BatchTensors kBatch{
    .positions = at::tensor({0., 0., 0., 1., 2., 3., 5., -1., 9.}, at::kDouble).view({3, 3}),
    .atomic_numbers = at::tensor({8, 1, 1}, at::kLong),
    .ptr = at::tensor({0, 2, 3}, at::kLong),
    .cell =
        at::tensor({2., 0., 0., 0., 4., 0., 0., 0., 8.}, at::kDouble).view({1, 3, 3}).expand({2, 3, 3}).contiguous(),
    .pbc = at::ones({2, 3}, at::kBool),
    .edge_index = at::tensor({0, 1, 1, 0}, at::kLong).view({2, 2}),
    .edge_shift = at::tensor({1., 0., -1., -1., 0., 1.}, at::kDouble).view({2, 3})};

const FieldTensor kEnergy{
    Level::molecule, {}, at::tensor({10., NAN}, at::kDouble), at::tensor({1, 0}, at::kLong).to(at::kBool)};

std::vector<double> made(const Output& output, const std::optional<FieldTensor>& field = std::nullopt) {
  const std::vector<std::optional<FieldTensor>> fields{field};
  return doubles(make_outputs(std::span(&output, 1), kBatch, fields).front());
}

TEST(Outputs, OfFields) {
  Output energy{.kind = OutputKind::value, .dtype = DType::float32, .field = plan::FieldId{Scope::builtin, "energy"}};
  expect_same(made(energy, kEnergy), {10, NAN}, "without a fill");
  energy.fill = -1;
  energy.references.assign(9, 0);
  energy.references[1] = 0.5;
  energy.references[8] = 2;
  expect_same(made(energy, kEnergy), {7.5, -1}, "less the references of O and H");
  const Output weight{.kind = OutputKind::weight, .dtype = DType::float64, .field = energy.field, .scale = 3};
  expect_same(made(weight, kEnergy), {3, 0}, "weight");
  const FieldTensor stress{Level::molecule, {3, 3}, at::arange(18, at::kDouble).view({2, 3, 3}), std::nullopt};
  const Output voigt{.kind = OutputKind::voigt,
                     .dtype = DType::float64,
                     .field = plan::FieldId{Scope::builtin, "stress"},
                     .order = {0, 4, 8, 5, 2, 1}};
  expect_same(made(voigt, stress), {0, 4, 8, 5, 2, 1, 9, 13, 17, 14, 11, 10}, "voigt");
}

TEST(Outputs, OfElements) {
  Output elements{.kind = OutputKind::one_hot, .dtype = DType::float32};
  elements.columns.assign(9, -1);
  elements.columns[1] = 1;
  elements.columns[8] = 0;
  expect_same(made(elements), {1, 0, 0, 1, 0, 1}, "one_hot");
  elements.kind = OutputKind::element_index;
  elements.dtype = DType::int64;
  expect_same(made(elements), {0, 1, 1}, "element_index");
  elements.columns[1] = -1;
  const std::string error = test::message_of<FieldError>([&] { made(elements); });
  EXPECT_NE(error.find("molecule 0"), std::string::npos) << error;
}

TEST(Outputs, OfEdges) {
  expect_same(made({.kind = OutputKind::edge_offset, .dtype = DType::float64}), {2, 0, -8, -2, 0, 8}, "edge_offset");
  expect_same(made({.kind = OutputKind::edge_vector, .dtype = DType::float64}), {3, 2, -5, -3, -2, 5}, "edge_vector");
  expect_same(made({.kind = OutputKind::edge_pairs, .dtype = DType::int64}), {0, 1, 1, 0}, "edge_pairs");
  expect_same(made({.kind = OutputKind::edge_count, .dtype = DType::int64}), {2, 0}, "edge_count");
}

TEST(Outputs, OfCells) {
  expect_same(made({.kind = OutputKind::volume, .dtype = DType::float64}), {64, 64}, "volume");
  expect_same(made({.kind = OutputKind::wrapped_positions, .dtype = DType::float64}), {0, 0, 0, 1, 2, 3, 1, 3, 1},
              "wrapped_positions");
  expect_same(made({.kind = OutputKind::fractional_positions, .dtype = DType::float64}),
              {0, 0, 0, 0.5, 0.5, 0.375, 2.5, -0.25, 1.125}, "fractional_positions");
}

}  // namespace
}  // namespace atompack::collate
