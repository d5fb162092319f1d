#include "plan/field_set.h"

#include <gtest/gtest.h>

#include <array>

#include "message_of.h"

namespace atompack::plan {
namespace {

FieldDeclaration declared(const std::string& key, DType dtype, std::optional<Shape> shape,
                          Scope scope = Scope::molecule_property) {
  return {scope, key, {.dtype = dtype}, std::move(shape)};
}

constexpr std::array<int32_t, 2> kBoth{0, 1};

TEST(FieldSet, WidthsOfAllFilesCountWhicheverAreRead) {
  const Request request;
  const std::array<MoleculeSchema, 2> schemas{{{DType::float32, {declared("x", DType::float32, Shape{3})}},
                                               {DType::float64, {declared("x", DType::float64, Shape{3})}}}};
  const FieldSet fields(schemas, request);
  const FieldPlan plan = fields.resolve(0, std::array{0}, {}, 4);
  EXPECT_EQ(plan.stored, DType::float32);
  EXPECT_EQ(plan.type.dtype, DType::float64);
  EXPECT_EQ(plan.row_elements, 3);
  EXPECT_EQ(resolve_positions(schemas, request), DType::float64);
}

TEST(FieldSet, KindsThatDoNotMix) {
  const Request request;
  const std::array<MoleculeSchema, 2> schemas{{{DType::float32, {declared("x", DType::float32, Shape{})}},
                                               {DType::float32, {declared("x", DType::int64, Shape{})}}}};
  const FieldSet fields(schemas, request);
  EXPECT_EQ(test::message_of<FieldError>([&] { fields.resolve(0, kBoth, {}, 1); }),
            "types that cannot share a batch: float32 and int64 (field 'x')");
  EXPECT_EQ(fields.resolve(0, std::array{1}, {}, 1).type.dtype, DType::int64);
}

TEST(FieldSet, ShapesThatDifferMakeAListOfTensors) {
  const Request request;
  const std::array<MoleculeSchema, 1> schemas{{{DType::float32, {declared("x", DType::float32, std::nullopt)}}}};
  const FieldSet fields(schemas, request);
  EXPECT_FALSE(fields.is_determined_by(0));
  const FieldType type{.dtype = DType::float32};
  const Observation first{0, 0, type, {3}, true}, second{2, 0, type, {2}, true};
  const FieldPlan plan = fields.resolve(0, std::array{0}, std::array{&first, &second}, 3);
  ASSERT_TRUE(plan.ragged);
  EXPECT_TRUE(plan.rows[0].present);
  EXPECT_FALSE(plan.rows[1].present);
  EXPECT_EQ(plan.rows[2].row_shape, Shape{2});
}

TEST(FieldSet, EnergiesAndGeometry) {
  Request request;
  request.floating = DType::float32;
  request.missing = Missing::error;
  const std::array<MoleculeSchema, 1> schemas{{{DType::float64,
                                                {declared("energy", DType::float32, Shape{}, Scope::builtin),
                                                 declared("cell", DType::float64, Shape{3, 3}, Scope::builtin)}}}};
  const FieldSet fields(schemas, request);
  const FieldPlan energy = fields.resolve(0, std::array{0}, {}, 1), cell = fields.resolve(1, std::array{0}, {}, 1);
  EXPECT_EQ(energy.type.dtype, DType::float64);
  EXPECT_TRUE(energy.must_be_present);
  EXPECT_EQ(cell.type.dtype, DType::float32);
  EXPECT_FALSE(cell.must_be_present);
  EXPECT_TRUE(cell.absent_is_zero);
  EXPECT_EQ(resolve_positions(schemas, request), DType::float32);
}

TEST(FieldSet, LabelsNamedByTheUserThatNoFileHasAreMissing) {
  const std::array<MoleculeSchema, 1> schemas{{{DType::float64,
                                                {declared("energy", DType::float32, Shape{}, Scope::builtin),
                                                 declared("stress", DType::float32, Shape{3, 3}, Scope::builtin)}}}};
  Request request;
  std::set<FieldId>& named = request.fields.emplace();
  for (const char* const key : {"energy", "dipole", "stress", "cell"}) named.insert({Scope::builtin, key});
  request.excluded = {{Scope::builtin, "stress"}, {Scope::builtin, "cell"}};
  const FieldSet fields(schemas, request);
  ASSERT_EQ(fields.table()->fields().size(), 2U);
  EXPECT_EQ(fields.table()->fields()[1].id.key, "dipole");
  const FieldPlan dipole = fields.resolve(1, std::array{0}, {}, 2);
  EXPECT_EQ(dipole.type.dtype, DType::float64);
  EXPECT_EQ(dipole.row_shape, Shape{3});
  EXPECT_FALSE(dipole.ragged);
}

}  // namespace
}  // namespace atompack::plan
