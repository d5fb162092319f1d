#include "plan/column_plan.h"

#include <gtest/gtest.h>

#include "message_of.h"
#include "plan/type_rules.h"

namespace atompack::plan {
namespace {

struct ColumnRow {
  std::vector<uint64_t> shape;
  ColumnType type{ColumnKind::numeric, DType::float32};
  bool is_present = true;
};

// A slice of rows that hold no values.
class RowlessSlice final : public ColumnSlice {
 public:
  explicit RowlessSlice(std::vector<ColumnRow> rows) : rows_(std::move(rows)) {}

  size_t n_rows() const override { return rows_.size(); }
  bool is_present(size_t row) const override { return rows_[row].is_present; }
  ColumnType type(size_t row) const override { return rows_[row].type; }
  std::span<const uint64_t> shape(size_t row) const override { return rows_[row].shape; }
  void fill(ColumnVisitor&) const override {}
  size_t n_units() const override { return 0; }
  uint64_t work(size_t) const override { return 0; }
  void read(size_t, ColumnVisitor&) const override {}

 private:
  std::vector<ColumnRow> rows_;
};

constexpr ColumnType kInt16{ColumnKind::numeric, DType::int16};
constexpr ColumnType kText{ColumnKind::text, DType::uint8};
const ColumnRow kMissing{.shape = {}, .is_present = false};

struct PlannedColumn {
  ColumnPlan plan;
  ArenaLayout arena;
};

PlannedColumn plan_rows_of(std::vector<ColumnRow> rows, Layout layout, std::optional<DType> dtype = std::nullopt) {
  PlannedColumn made;
  made.plan = plan_column(std::make_unique<RowlessSlice>(std::move(rows)), "t", kInt16, layout, dtype, made.arena);
  return made;
}

std::string column_refusal(std::vector<ColumnRow> rows, Layout layout, std::optional<DType> dtype = std::nullopt) {
  return test::message_of<FieldError>([&] { plan_rows_of(std::move(rows), layout, dtype); });
}

using ColumnSizes = std::vector<int64_t>;

TEST(ColumnPlan, StacksRowsOfOneShape) {
  const auto [made, arena] = plan_rows_of({{{2, 3}}, kMissing, {{2, 3}}}, Layout::stacked);
  EXPECT_EQ(made.sizes, (ColumnSizes{3, 2, 3}));
  EXPECT_EQ(made.type.dtype, DType::float32);
  EXPECT_EQ(made.row_elements, 6U);
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(made.rows[row].offset, made.values + row * 24);
  EXPECT_EQ(arena.size() % ArenaLayout::kAlignment, 0U);
  EXPECT_GE(arena.size(), 72U + 3U);
}

TEST(ColumnPlan, ConcatenatesJaggedRows) {
  const auto [made, arena] = plan_rows_of({{{2, 3}}, {{0, 3}}, kMissing, {{4, 3}}}, Layout::jagged);
  EXPECT_EQ(made.sizes, (ColumnSizes{6, 3}));
  EXPECT_EQ(made.row_offsets, (ColumnSizes{0, 2, 2, 2, 6}));
  EXPECT_EQ(made.rows[3].offset, made.values + 24);
}

TEST(ColumnPlan, ListsHoldRowsOfAnyShapeAndType) {
  const auto [made, arena] = plan_rows_of({{{2, 3}}, {{}, kInt16}, {{5}}}, Layout::list);
  EXPECT_EQ(made.rows[1].out, DType::int16);
  EXPECT_EQ(made.rows[2].n_elements, 5U);
  EXPECT_NE(made.rows[0].offset, made.rows[2].offset);
}

TEST(ColumnPlan, WithoutARowTheTypeIsThatOfTheColumn) {
  const auto [made, arena] = plan_rows_of({kMissing, kMissing}, Layout::stacked);
  EXPECT_EQ(made.type, kInt16);
  EXPECT_EQ(made.sizes, (ColumnSizes{2, 0}));
}

TEST(ColumnPlan, RefusesRowsThatCannotShareATensor) {
  EXPECT_EQ(column_refusal({{{2, 3}}, {{2, 4}}}, Layout::stacked),
            "shapes in a stacked column: expected (2, 3), got (2, 4) in row 1 (field 't')");
  EXPECT_EQ(column_refusal({{{}}}, Layout::jagged),
            "shapes in a jagged column: expected at least one axis, got () in row 0 (field 't')");
  EXPECT_EQ(column_refusal({{{2}}, {{2}, kInt16}}, Layout::stacked),
            "types in a column: expected float32, got int16 in row 1 (field 't')");
  EXPECT_EQ(column_refusal({{{2}}, {{2}, kText}}, Layout::list),
            "types in a column: expected float32, got string in row 1 (field 't')");
}

TEST(ColumnPlan, CastsOnlyWithoutLossOfRange) {
  EXPECT_EQ(plan_rows_of({{{2}}, {{2}, kInt16}}, Layout::stacked, DType::float64).plan.type.dtype, DType::float64);
  EXPECT_EQ(column_refusal({{{2}}}, Layout::stacked, DType::int64),
            "dtype: float32 values cannot be cast to int64 (field 't')");
  EXPECT_TRUE(can_cast_column(DType::uint8, DType::int16));
  EXPECT_FALSE(can_cast_column(DType::int8, DType::uint64));
  EXPECT_FALSE(can_cast_column(DType::uint16, DType::int16));
}

TEST(ColumnPlan, ATensorLargerThanMemoryIsAnError) {
  EXPECT_NE(test::corrupt([] { plan_rows_of({{{uint64_t{1} << 62, 8}}}, Layout::stacked); }), "nothing was thrown");
}

}  // namespace
}  // namespace atompack::plan
