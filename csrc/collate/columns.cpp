#include "collate/columns.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/checked_math.h"
#include "collate/fill/copy.h"
#include "collate/torch_threads.h"
#include "plan/arena_layout.h"
#include "plan/type_rules.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {
namespace {

// Below it a second thread costs more than it saves.
constexpr uint64_t kWorthThreads = uint64_t{4} << 20;
AdaptiveParallelism pace;

// Bits of an integer type that hold the value.
int value_bits(DType dtype) {
  const int bits = static_cast<int>(8 * item_bytes(dtype));
  return dtype >= DType::int8 ? bits - 1 : bits;
}

// Floats to floats, integers to floats, and to integers that hold every one of them.
bool can_cast_column(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(to)) return is_floating(from) || is_integer(from);
  if (!is_integer(from) || !is_integer(to)) return false;
  const bool loses_sign = from >= DType::int8 && to < DType::int8;
  return !loses_sign && value_bits(from) <= value_bits(to);
}

// Where one row goes.
struct RowPlan {
  uint64_t n_elements = 0;
  size_t offset = 0;  // in the arena
  DType stored = DType::uint8, out = DType::uint8;
};

struct ColumnPlan {
  const ColumnPart* part = nullptr;
  ColumnType type;                   // of the output
  std::vector<int64_t> sizes;        // of the values, stacked or jagged
  std::vector<int64_t> row_offsets;  // jagged
  std::vector<RowPlan> rows;
  uint64_t stacked_elements = 0;             // of each row
  size_t values = 0, offsets = 0, mask = 0;  // in the arena

  const ColumnSlice& slice() const { return *part->slice; }
  size_t n_rows() const { return part->slice->n_rows(); }
  bool is_numeric() const { return type.kind == ColumnKind::numeric; }
};

uint64_t n_elements(std::span<const uint64_t> shape) {
  uint64_t n = 1;
  for (const uint64_t extent : shape) n = checked_mul(n, extent, "elements of the column");
  return n;
}

std::string text_of(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i > 0 ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string text_of(const ColumnType& type) {
  if (type.kind == ColumnKind::numeric) return std::string(name_of(type.dtype));
  return type.kind == ColumnKind::text ? "string" : "binary";
}

DType cast_of(DType stored, const ScanOptions& options, const std::string& name) {
  if (!options.dtype) return stored;
  if (can_cast_column(stored, *options.dtype)) return *options.dtype;
  throw FieldError(cat("dtype: ", name_of(stored), " values cannot be cast to ", name_of(*options.dtype)))
      .at_field(name);
}

// What all rows have in common, where the layout joins them.
class CommonShape {
 public:
  CommonShape(const ColumnPart& part, Layout layout) : part_(part), first_axis_(layout == Layout::jagged ? 1 : 0) {}

  void add(size_t row, std::span<const uint64_t> shape) {
    if (first_axis_ > 0 && shape.empty()) fail(row, "at least one axis", "()");
    if (!known_) shape_.assign(shape.begin(), shape.end());
    known_ = true;
    if (!std::ranges::equal(shape.subspan(first_axis_), rest())) fail(row, text_of(shape_), text_of(shape));
  }
  bool known() const { return known_; }
  std::span<const uint64_t> rest() const { return std::span(shape_).subspan(first_axis_); }

 private:
  [[noreturn]] void fail(size_t row, const std::string& expected, const std::string& got) const {
    const char* const layout = first_axis_ > 0 ? "jagged" : "stacked";
    throw FieldError(cat("shapes in a ", layout, " column: expected ", expected, ", got ", got, " in row ", row))
        .at_field(part_.name);
  }

  const ColumnPart& part_;
  size_t first_axis_;
  bool known_ = false;
  std::vector<uint64_t> shape_;
};

// Sets the type of the column; rows of several types are told apart only in a list.
void settle_type(ColumnPlan& plan, const ScanOptions& options) {
  const ColumnSlice& slice = plan.slice();
  std::optional<ColumnType> first;
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    if (!slice.is_present(i)) continue;
    const ColumnType type = slice.type(i);
    if (!first) first = type;
    const bool must_agree = options.layout != Layout::list && !options.dtype;
    if (type.kind == first->kind && (type == *first || !must_agree)) continue;
    throw FieldError(cat("types in a column: expected ", text_of(*first), ", got ", text_of(type), " in row ", i))
        .at_field(plan.part->name);
  }
  plan.type = first.value_or(plan.part->type);
  if (plan.is_numeric()) plan.type.dtype = cast_of(plan.type.dtype, options, plan.part->name);
}

void plan_rows(ColumnPlan& plan, const ScanOptions& options) {
  const ColumnSlice& slice = plan.slice();
  CommonShape common(*plan.part, options.layout);
  plan.rows.resize(plan.n_rows());
  plan.row_offsets.push_back(0);
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    int64_t length = 0;
    if (slice.is_present(i)) {
      const std::span<const uint64_t> shape = slice.shape(i);
      if (options.layout != Layout::list) common.add(i, shape);
      RowPlan& row = plan.rows[i];
      row.n_elements = n_elements(shape);
      if (plan.is_numeric()) {
        row.stored = slice.type(i).dtype;
        row.out = cast_of(row.stored, options, plan.part->name);
      }
      if (options.layout == Layout::jagged) length = static_cast<int64_t>(shape[0]);
    }
    plan.row_offsets.push_back(plan.row_offsets.back() + length);
  }
  plan.sizes = {options.layout == Layout::jagged ? plan.row_offsets.back() : static_cast<int64_t>(plan.n_rows())};
  if (!common.known()) plan.sizes.push_back(0);  // no row tells more
  if (common.known()) plan.sizes.insert(plan.sizes.end(), common.rest().begin(), common.rest().end());
}

void lay_out(ColumnPlan& plan, Layout layout, ArenaLayout& arena) {
  plan.mask = arena.add(plan.n_rows(), 1);
  if (layout == Layout::jagged) plan.offsets = arena.add(plan.row_offsets.size(), sizeof(int64_t));
  if (!plan.is_numeric()) return;
  const size_t item = item_bytes(plan.type.dtype);
  if (layout == Layout::list) {
    for (RowPlan& row : plan.rows) row.offset = arena.add(row.n_elements, item_bytes(row.out));
    return;
  }
  uint64_t row_elements = 1;  // of a row, or of one element along its first axis
  for (size_t i = 1; i < plan.sizes.size(); ++i) {
    row_elements = checked_mul(row_elements, static_cast<uint64_t>(plan.sizes[i]), "elements of the column");
  }
  plan.stacked_elements = row_elements;
  const uint64_t row_bytes = checked_mul(row_elements, item, "bytes of a row");
  plan.values = arena.add(static_cast<uint64_t>(plan.sizes[0]), row_bytes);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const auto before = layout == Layout::jagged ? static_cast<uint64_t>(plan.row_offsets[i]) : i;
    plan.rows[i].offset = plan.values + before * row_bytes;
  }
}

class ColumnFiller final : public ColumnVisitor {
 public:
  ColumnFiller(const ColumnPlan& plan, std::byte* arena, std::vector<std::optional<TextRow>>& texts)
      : plan_(plan), arena_(arena), texts_(texts) {}

  std::byte* place(size_t row, uint64_t first, uint64_t) override {
    const RowPlan& to = plan_.rows[row];
    return to.stored == to.out ? at(to, first) : nullptr;
  }
  void values(size_t row, uint64_t first, Bytes values) override {
    const RowPlan& to = plan_.rows[row];
    copy_values(at(to, first), to.out, values.data(), to.stored, values.size() / item_bytes(to.stored));
  }
  void fill(size_t row, Bytes item) override {
    const RowPlan& to = plan_.rows[row];
    std::array<std::byte, 16> cast{};
    copy_values(cast.data(), to.out, item.data(), to.stored, 1);
    const Bytes one = Bytes(cast).first(item_bytes(to.out));
    for (uint64_t i = 0; i < to.n_elements; ++i) store(at(to, i), one);
  }
  void text(size_t row, uint64_t element, Bytes text) override { (*texts_[row])[element] = as_text(text); }

 private:
  std::byte* at(const RowPlan& row, uint64_t element) const {
    return arena_ + row.offset + element * item_bytes(row.out);
  }

  const ColumnPlan& plan_;
  std::byte* arena_;
  std::vector<std::optional<TextRow>>& texts_;
};

// Everything that is not read: masks, offsets, rows that are missing.
void write_plain(const ColumnPlan& plan, Layout layout, std::byte* arena) {
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    const bool present = plan.slice().is_present(i);
    arena[plan.mask + i] = std::byte{present};
    if (present || !plan.is_numeric() || layout != Layout::stacked) continue;
    fill_missing(arena + plan.rows[i].offset, plan.type.dtype, plan.stacked_elements);
  }
  if (layout == Layout::jagged) {
    store(arena + plan.offsets, std::as_bytes(std::span(plan.row_offsets)));
  }
}

std::vector<std::optional<TextRow>> empty_texts(const ColumnPlan& plan) {
  std::vector<std::optional<TextRow>> texts(plan.n_rows());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (plan.slice().is_present(i)) texts[i].emplace(plan.rows[i].n_elements);
  }
  return texts;
}

struct ScanTask {
  size_t column, unit;
};

void run(std::span<const ColumnPlan> plans, std::span<ColumnFiller> fillers, int max_threads) {
  std::vector<ScanTask> tasks;
  uint64_t work = 0;
  for (size_t column = 0; column < plans.size(); ++column) {
    const ColumnSlice& slice = plans[column].slice();
    slice.fill(fillers[column]);
    for (size_t unit = 0; unit < slice.n_units(); ++unit) {
      tasks.push_back({column, unit});
      work += slice.work(unit);
    }
  }
  const auto most = std::min<int64_t>(usable_threads(max_threads), std::ssize(tasks));
  run_adaptively(pace, static_cast<int64_t>(work), work >= kWorthThreads ? most : 1, [&](int64_t n_threads) {
    std::atomic<size_t> next{0};  // units differ in their work: whoever is free takes one
    for_each_range(n_threads, [&](int64_t) {
      for (size_t i = next++; i < tasks.size(); i = next++) {
        plans[tasks[i].column].slice().read(tasks[i].unit, fillers[tasks[i].column]);
      }
    });
  });
}

std::vector<int64_t> sizes_of(std::span<const uint64_t> shape) { return {shape.begin(), shape.end()}; }

ScannedColumn wrap(const ColumnPlan& plan, Layout layout, const at::Tensor& arena,
                   std::vector<std::optional<TextRow>> texts) {
  ScannedColumn column;
  column.kind = plan.type.kind;
  const std::array n_rows{static_cast<int64_t>(plan.n_rows())};
  column.mask = view_arena(arena, DType::boolean, plan.mask, n_rows);
  if (layout == Layout::jagged) {
    const std::array n_offsets{std::ssize(plan.row_offsets)};
    column.offsets = view_arena(arena, DType::int64, plan.offsets, n_offsets);
  }
  if (!plan.is_numeric()) {
    column.texts = std::move(texts);
    for (size_t i = 0; i < plan.n_rows(); ++i) {
      column.shapes.push_back(plan.slice().is_present(i) ? sizes_of(plan.slice().shape(i)) : std::vector<int64_t>{});
    }
  } else if (layout != Layout::list) {
    column.values = view_arena(arena, plan.type.dtype, plan.values, plan.sizes);
  } else {
    for (size_t i = 0; i < plan.n_rows(); ++i) {
      column.list.emplace_back();
      if (!plan.slice().is_present(i)) continue;
      column.list.back() = view_arena(arena, plan.rows[i].out, plan.rows[i].offset, sizes_of(plan.slice().shape(i)));
    }
  }
  return column;
}

}  // namespace

Scan scan(std::span<const ColumnPart> parts, const ScanOptions& options, ArenaKind kind) {
  std::vector<ColumnPlan> plans(parts.size());
  std::vector<std::vector<std::optional<TextRow>>> texts(parts.size());
  ArenaLayout room;
  for (size_t i = 0; i < parts.size(); ++i) {
    plans[i].part = &parts[i];
    settle_type(plans[i], options);
    plan_rows(plans[i], options);
    lay_out(plans[i], options.layout, room);
    if (!plans[i].is_numeric()) texts[i] = empty_texts(plans[i]);
  }
  Scan made{allocate_arena(room.size(), kind), {}};
  auto* const memory = static_cast<std::byte*>(made.arena.mutable_data_ptr());
  std::vector<ColumnFiller> fillers;
  fillers.reserve(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    fillers.emplace_back(plans[i], memory, texts[i]);
    write_plain(plans[i], options.layout, memory);
  }
  run(plans, fillers, options.max_threads);
  for (size_t i = 0; i < plans.size(); ++i) {
    made.columns.push_back(wrap(plans[i], options.layout, made.arena, std::move(texts[i])));
  }
  return made;
}

}  // namespace atompack::collate
