#include "plan/column_plan.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/type_rules.h"

namespace atompack::plan {
namespace {

uint64_t n_elements(std::span<const uint64_t> shape) {
  uint64_t n = 1;
  for (const uint64_t extent : shape) n = checked_mul(n, extent, "elements of the column");
  return n;
}

std::string format_shape(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i > 0 ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string type_name(const ColumnType& type) {
  if (type.kind == ColumnKind::numeric) return std::string(name_of(type.dtype));
  return type.kind == ColumnKind::text ? "string" : "binary";
}

DType output_dtype(DType stored, std::optional<DType> wanted, const std::string& name) {
  if (!wanted) return stored;
  if (can_cast_column(stored, *wanted)) return *wanted;
  throw FieldError(cat("dtype: ", name_of(stored), " values cannot be cast to ", name_of(*wanted))).at_field(name);
}

// Shape shared by all rows of a stacked or jagged column.
class CommonShape {
 public:
  CommonShape(const std::string& name, Layout layout) : name_(name), first_axis_(layout == Layout::jagged ? 1 : 0) {}

  void add(size_t row, std::span<const uint64_t> shape) {
    if (first_axis_ > 0 && shape.empty()) fail(row, "at least one axis", "()");
    if (!known_) shape_.assign(shape.begin(), shape.end());
    known_ = true;
    if (!std::ranges::equal(shape.subspan(first_axis_), rest())) fail(row, format_shape(shape_), format_shape(shape));
  }
  bool known() const { return known_; }
  std::span<const uint64_t> rest() const { return std::span(shape_).subspan(first_axis_); }

 private:
  [[noreturn]] void fail(size_t row, const std::string& expected, const std::string& got) const {
    const char* const layout = first_axis_ > 0 ? "jagged" : "stacked";
    throw FieldError(cat("shapes in a ", layout, " column: expected ", expected, ", got ", got, " in row ", row))
        .at_field(name_);
  }

  const std::string& name_;
  size_t first_axis_;
  bool known_ = false;
  std::vector<uint64_t> shape_;
};

// Returns the type of the column. With `must_agree`, rows must have the same type; otherwise only the same kind.
ColumnType common_column_type(const ColumnPlan& plan, const ColumnType& type_if_absent, bool must_agree) {
  std::optional<ColumnType> first;
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    if (!plan.slice->is_present(i)) continue;
    const ColumnType type = plan.slice->type(i);
    if (!first) first = type;
    if (type.kind == first->kind && (type == *first || !must_agree)) continue;
    throw FieldError(cat("types in a column: expected ", type_name(*first), ", got ", type_name(type), " in row ", i))
        .at_field(plan.name);
  }
  return first.value_or(type_if_absent);
}

void plan_rows(ColumnPlan& plan, Layout layout, std::optional<DType> dtype) {
  CommonShape common(plan.name, layout);
  plan.row_offsets.push_back(0);
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    int64_t length = 0;
    if (plan.slice->is_present(i)) {
      const std::span<const uint64_t> shape = plan.slice->shape(i);
      if (layout != Layout::list) common.add(i, shape);
      RowPlan& row = plan.rows[i];
      row.n_elements = n_elements(shape);
      if (plan.is_numeric()) {
        row.stored = plan.slice->type(i).dtype;
        row.out = output_dtype(row.stored, dtype, plan.name);
      }
      if (layout == Layout::jagged) length = static_cast<int64_t>(shape[0]);
    }
    plan.row_offsets.push_back(plan.row_offsets.back() + length);
  }
  plan.sizes = {layout == Layout::jagged ? plan.row_offsets.back() : static_cast<int64_t>(plan.n_rows())};
  if (!common.known()) plan.sizes.push_back(0);  // no row has a shape
  if (common.known()) plan.sizes.insert(plan.sizes.end(), common.rest().begin(), common.rest().end());
}

void place_rows(ColumnPlan& plan, Layout layout, ArenaLayout& arena) {
  plan.mask = arena.add(plan.n_rows(), 1);
  if (layout == Layout::jagged) plan.offsets = arena.add(plan.row_offsets.size(), sizeof(int64_t));
  if (!plan.is_numeric()) return;
  const size_t item = item_bytes(plan.type.dtype);
  if (layout == Layout::list) {
    for (RowPlan& row : plan.rows) row.offset = arena.add(row.n_elements, item_bytes(row.out));
    return;
  }
  plan.row_elements = 1;
  for (size_t i = 1; i < plan.sizes.size(); ++i) {
    plan.row_elements = checked_mul(plan.row_elements, static_cast<uint64_t>(plan.sizes[i]), "elements of the column");
  }
  const uint64_t row_bytes = checked_mul(plan.row_elements, item, "bytes of a row");
  plan.values = arena.add(static_cast<uint64_t>(plan.sizes[0]), row_bytes);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const auto rows_before = layout == Layout::jagged ? static_cast<uint64_t>(plan.row_offsets[i]) : i;
    plan.rows[i].offset = plan.values + rows_before * row_bytes;
  }
}

}  // namespace

ColumnPlan plan_column(std::unique_ptr<const ColumnSlice> slice, std::string name, const ColumnType& type_if_absent,
                       Layout layout, std::optional<DType> dtype, ArenaLayout& arena) {
  ColumnPlan plan;
  plan.slice = std::move(slice);
  plan.name = std::move(name);
  plan.rows.resize(plan.slice->n_rows());
  plan.type = common_column_type(plan, type_if_absent, layout != Layout::list && !dtype);
  if (plan.is_numeric()) plan.type.dtype = output_dtype(plan.type.dtype, dtype, plan.name);
  plan_rows(plan, layout, dtype);
  place_rows(plan, layout, arena);
  return plan;
}

}  // namespace atompack::plan
