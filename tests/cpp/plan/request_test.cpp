#include "plan/request.h"

#include <gtest/gtest.h>

#include "message_of.h"
#include "plan/batch_plan.h"

namespace atompack::plan {
namespace {

constexpr OutputDims kDims{.molecules = 2, .atoms = 5, .edges = 7};
using Sizes = std::vector<int64_t>;

Output made_of(OutputKind kind, std::string key = "energy") {
  Output output{.kind = kind, .dtype = DType::float32};
  output.field = FieldId{Scope::builtin, std::move(key)};
  return output;
}

TEST(Output, ShapesFollowTheField) {
  const Output value = made_of(OutputKind::value);
  EXPECT_EQ(output_shape(value, kDims, SourceField{Level::molecule, {}}), Sizes{2});
  EXPECT_EQ(output_shape(value, kDims, SourceField{Level::atom, {3}}), (Sizes{5, 3}));
  Output voigt = made_of(OutputKind::voigt, "stress");
  EXPECT_THROW(output_shape(voigt, kDims, SourceField{Level::molecule, {3, 3}}), InternalError);
  voigt.order = {0, 4, 8, 5, 2, 1};
  EXPECT_EQ(output_shape(voigt, kDims, SourceField{Level::molecule, {3, 3}}), (Sizes{2, 6}));
  Output constant{.kind = OutputKind::constant, .dtype = DType::float32};
  constant.level = Level::atom;
  constant.row_shape = {2};
  EXPECT_EQ(output_shape(constant, kDims, std::nullopt), (Sizes{5, 2}));
  EXPECT_EQ(output_shape({.kind = OutputKind::edge_reversed, .dtype = DType::int64}, kDims, std::nullopt),
            (Sizes{2, 7}));
  EXPECT_EQ(output_shape({.kind = OutputKind::edge_pairs, .dtype = DType::int64}, kDims, std::nullopt), (Sizes{7, 2}));
  EXPECT_EQ(output_shape({.kind = OutputKind::lattice, .dtype = DType::float32}, kDims, std::nullopt),
            (Sizes{2, 3, 3}));
  EXPECT_EQ(output_shape({.kind = OutputKind::fractional_positions, .dtype = DType::float32}, kDims, std::nullopt),
            (Sizes{5, 3}));
}

TEST(Output, ColumnsOfElements) {
  Output output{.kind = OutputKind::one_hot, .dtype = DType::float32};
  EXPECT_EQ(output_shape(output, kDims, std::nullopt), (Sizes{5, 0}));
  output.columns = {-1, 0, -1, 2};
  EXPECT_EQ(output_shape(output, kDims, std::nullopt), (Sizes{5, 3}));
}

TEST(Output, FieldsThatDoNotFit) {
  Output value = made_of(OutputKind::value);
  EXPECT_EQ(test::message_of<FieldError>([&] { output_shape(value, kDims, SourceField{Level::edge, {}}); }),
            "expected values of molecules or atoms (field 'energy')");
  value.references = {0.0, 1.0};
  EXPECT_EQ(test::message_of<FieldError>([&] { output_shape(value, kDims, SourceField{Level::atom, {}}); }),
            "expected one number for each molecule, to subtract references (field 'energy')");
}

TEST(Output, PlacesFollowTheOtherTensors) {
  BatchPlan plan;
  plan.indices = {0, 1};
  plan.ptr = {0, 2, 5};
  plan.table = std::make_shared<FieldTable>();
  plan.positions = DType::float64;  // a different type than that of the output
  plan.arena_bytes = 128;
  const std::vector<Output> outputs{made_of(OutputKind::value, "positions"), made_of(OutputKind::weight, "stress")};
  lay_out_outputs(plan, outputs);
  ASSERT_EQ(plan.outputs.size(), 2U);
  EXPECT_EQ(plan.outputs[0].offset, 128U);
  EXPECT_EQ(plan.outputs[0].shape, (Sizes{5, 3}));
  EXPECT_EQ(plan.outputs[1].offset, 192U);
  EXPECT_EQ(plan.arena_bytes, 256U);
  EXPECT_EQ(test::message_of<FieldError>(
                [&] { lay_out_outputs(plan, std::vector{made_of(OutputKind::value, "quadrupole")}); }),
            "no such field (field 'quadrupole')");
}

TEST(Output, WhatEqualsAFieldSharesItsPlaceOnce) {
  BatchPlan plan;
  plan.indices = {0, 1};
  plan.ptr = {0, 2, 5};
  plan.table = std::make_shared<FieldTable>();
  const PrecomputedEdges kept{};
  plan.edges.emplace();
  plan.edges->kept = &kept;
  plan.edges->kept_ptr = {0, 3, 7};
  Output shift{.kind = OutputKind::edge_shift, .dtype = DType::float64};
  Output reversed{.kind = OutputKind::edge_reversed, .dtype = DType::int64};
  const std::vector<Output> outputs{made_of(OutputKind::value, "positions"), made_of(OutputKind::value, "positions"),
                                    shift, reversed};
  fit_edges(plan, outputs);
  EXPECT_EQ(plan.edges->shift_dtype, DType::float64);
  EXPECT_TRUE(plan.edges->has_reversed);
  lay_out(plan);
  lay_out_outputs(plan, outputs);
  EXPECT_TRUE(plan.outputs[0].is_shared);
  EXPECT_EQ(plan.outputs[0].offset, plan.core.positions);
  EXPECT_FALSE(plan.outputs[1].is_shared);
  EXPECT_EQ(plan.outputs[2].offset, plan.edges->shift);
  EXPECT_EQ(plan.outputs[3].offset, plan.edges->index + 7 * sizeof(int64_t));
  fit_edges(plan, {});
  EXPECT_EQ(plan.edges->shift_dtype, plan.positions);
}

}  // namespace
}  // namespace atompack::plan
