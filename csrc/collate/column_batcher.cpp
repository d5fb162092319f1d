#include "collate/column_batcher.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/excerpt.h"
#include "collate/copy.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {
namespace {

// Work in bytes below which a second thread costs more than it saves.
constexpr uint64_t kMinParallelWork = uint64_t{4} << 20;
// Work of which a small part is measured on one thread, to decide about the rest: a whole scan would take too long.
constexpr uint64_t kSampledWork = uint64_t{64} << 20, kMaxSample = uint64_t{32} << 20;
constexpr uint64_t kSampleShare = 16;
// Copying a byte takes at least this many nanoseconds; decoding takes longer.
constexpr double kFirstPace = 0.1;
threads::AdaptiveParallelism scan_parallelism{kFirstPace};

class ColumnFiller final : public ColumnVisitor {
 public:
  ColumnFiller(const plan::ColumnPlan& plan, std::byte* arena, std::vector<std::optional<StringRow>>& strings)
      : plan_(plan), arena_(arena), strings_(strings) {}

  std::byte* place(size_t row, uint64_t first, uint64_t) override {
    const plan::RowPlan& to = plan_.rows[row];
    return to.stored == to.out ? at(to, first) : nullptr;
  }
  void values(size_t row, uint64_t first, Bytes values) override {
    const plan::RowPlan& to = plan_.rows[row];
    copy_values(at(to, first), to.out, values.data(), to.stored, values.size() / item_bytes(to.stored));
  }
  void fill(size_t row, Bytes item) override {
    const plan::RowPlan& to = plan_.rows[row];
    std::array<std::byte, 16> cast{};
    copy_values(cast.data(), to.out, item.data(), to.stored, 1);
    const Bytes one = Bytes(cast).first(item_bytes(to.out));
    for (uint64_t i = 0; i < to.n_elements; ++i) store(at(to, i), one);
  }
  void text(size_t row, uint64_t element, Bytes text) override { (*strings_[row])[element] = as_text(text); }

 private:
  std::byte* at(const plan::RowPlan& row, uint64_t element) const {
    return arena_ + row.offset + element * item_bytes(row.out);
  }

  const plan::ColumnPlan& plan_;
  std::byte* arena_;
  std::vector<std::optional<StringRow>>& strings_;
};

// Writes masks, offsets and missing rows, which are not read from files.
void write_masks_and_offsets(const plan::ColumnPlan& plan, plan::Layout layout, std::byte* arena) {
  for (size_t i = 0; i < plan.n_rows(); ++i) {
    const bool present = plan.slice->is_present(i);
    arena[plan.mask + i] = std::byte{present};
    if (present || !plan.is_numeric() || layout != plan::Layout::stacked) continue;
    plan::fill_missing(arena + plan.rows[i].offset, plan.type.dtype, plan.row_elements);
  }
  if (layout == plan::Layout::jagged) {
    store(arena + plan.offsets, std::as_bytes(std::span(plan.row_offsets)));
  }
}

std::vector<std::optional<StringRow>> empty_strings(const plan::ColumnPlan& plan) {
  std::vector<std::optional<StringRow>> strings(plan.n_rows());
  for (size_t i = 0; i < strings.size(); ++i) {
    if (plan.slice->is_present(i)) strings[i].emplace(plan.rows[i].n_elements);
  }
  return strings;
}

struct ScanTask {
  size_t column, unit;
  uint64_t work;
};

// Runs `body(first, last, n_threads)` for consecutive ranges of the tasks.
template <typename Body>
void run_tasks(std::span<const ScanTask> tasks, uint64_t work, int64_t max_threads, const Body& body) {
  const auto run = [&](size_t first, size_t last, uint64_t part, int64_t n_threads) {
    const threads::Stopwatch watch;
    body(first, last, n_threads);
    scan_parallelism.record(watch.elapsed(), static_cast<int64_t>(part), n_threads);
  };
  if (max_threads < 2 || work < kMinParallelWork) return body(0, tasks.size(), 1);
  const auto all = static_cast<int64_t>(work);
  if (work < kSampledWork || tasks.front().work > work / kSampleShare) {
    return run(0, tasks.size(), work, scan_parallelism.advised_threads(all, max_threads));
  }
  size_t n_sample = 0;
  uint64_t sample = 0;
  while (sample < std::min(work / kSampleShare, kMaxSample)) sample += tasks[n_sample++].work;
  run(0, n_sample, sample, 1);
  if (n_sample == tasks.size()) return;
  const auto rest = static_cast<int64_t>(work - sample);
  run(n_sample, tasks.size(), work - sample, scan_parallelism.advised_after_sample(rest, max_threads));
}

void read_columns(std::span<const plan::ColumnPlan> plans, std::span<ColumnFiller> fillers, int max_threads) {
  std::vector<ScanTask> tasks;
  uint64_t work = 0;
  for (size_t column = 0; column < plans.size(); ++column) {
    const ColumnSlice& slice = *plans[column].slice;
    slice.fill(fillers[column]);
    for (size_t unit = 0; unit < slice.n_units(); ++unit) {
      tasks.push_back({column, unit, slice.work(unit)});
      work += tasks.back().work;
    }
  }
  const auto max_useful = std::min<int64_t>(usable_threads(max_threads), std::ssize(tasks));
  run_tasks(tasks, work, max_useful, [&](size_t first, size_t last, int64_t n_threads) {
    std::atomic<size_t> next{first};  // units differ in work, so each thread takes the next one when it is free
    for_each_range(n_threads, [&](int64_t) {
      for (size_t i = next++; i < last; i = next++) {
        plans[tasks[i].column].slice->read(tasks[i].unit, fillers[tasks[i].column]);
      }
    });
  });
}

std::vector<int64_t> sizes_of(std::span<const uint64_t> shape) { return {shape.begin(), shape.end()}; }

ScannedColumn wrap(const plan::ColumnPlan& plan, plan::Layout layout, const at::Tensor& arena,
                   std::vector<std::optional<StringRow>> strings) {
  ScannedColumn column;
  column.kind = plan.type.kind;
  const std::array n_rows{static_cast<int64_t>(plan.n_rows())};
  column.mask = view_arena(arena, DType::boolean, plan.mask, n_rows);
  if (layout == plan::Layout::jagged) {
    const std::array n_offsets{std::ssize(plan.row_offsets)};
    column.offsets = view_arena(arena, DType::int64, plan.offsets, n_offsets);
  }
  if (!plan.is_numeric()) {
    column.strings = std::move(strings);
    for (size_t i = 0; i < plan.n_rows(); ++i) {
      column.shapes.push_back(plan.slice->is_present(i) ? sizes_of(plan.slice->shape(i)) : std::vector<int64_t>{});
    }
  } else if (layout != plan::Layout::list) {
    column.values = view_arena(arena, plan.type.dtype, plan.values, plan.sizes);
  } else {
    for (size_t i = 0; i < plan.n_rows(); ++i) {
      column.list.emplace_back();
      if (!plan.slice->is_present(i)) continue;
      column.list.back() = view_arena(arena, plan.rows[i].out, plan.rows[i].offset, sizes_of(plan.slice->shape(i)));
    }
  }
  return column;
}

}  // namespace

at::Tensor copy_of(const HeldArray& array) {
  const std::vector<int64_t> sizes = sizes_of(array.shape);
  at::Tensor made = at::empty(sizes, at::TensorOptions(scalar_type_of(array.dtype)));
  store(static_cast<std::byte*>(made.mutable_data_ptr()), array.values);
  return made;
}

ColumnBatcher::ColumnBatcher(std::shared_ptr<const ColumnSource> source, std::vector<uint32_t> variables,
                             SliceRequest request, ScanOptions options)
    : source_(std::move(source)),
      variables_(std::move(variables)),
      request_(std::move(request)),
      options_(std::move(options)) {
  for (const uint32_t variable : variables_) {
    if (variable >= source_->n_variables()) throw InternalError(cat("variable ", variable, " out of range"));
  }
}

ColumnBatcher::Slices ColumnBatcher::make_slices(std::span<const int64_t> datasets) const {
  source_->prepare(variables_);
  Slices slices;
  for (const uint32_t variable : variables_) slices.push_back(source_->slice(variable, datasets, request_));
  return slices;
}

std::vector<int64_t> ColumnBatcher::complete_datasets(std::span<const int64_t> datasets, const Slices& slices) const {
  std::vector<int64_t> kept;
  for (size_t row = 0; row < datasets.size(); ++row) {
    const auto absent = std::ranges::find_if(slices, [&](const auto& slice) { return !slice->is_present(row); });
    if (absent == slices.end()) {
      kept.push_back(datasets[row]);
    } else if (options_.missing == plan::Missing::error) {
      const uint32_t variable = variables_[static_cast<size_t>(absent - slices.begin())];
      throw FieldError(cat("dataset ", excerpt(source_->dataset_name(datasets[row])), " has no array ",
                           excerpt(source_->variable_name(variable))))
          .in_file(source_->path());
    }
  }
  return kept;
}

int64_t ColumnBatcher::window() const {
  int64_t window = 0;
  for (const uint32_t variable : variables_) window = std::max(window, source_->window(variable));
  return window;
}

void ColumnBatcher::announce(std::span<const int64_t> datasets) const {
  for (const auto& slice : make_slices(datasets)) slice->announce();
}

AnyBatch ColumnBatcher::read(std::vector<int64_t> datasets, ArenaKind kind, Parallelism parallelism,
                             bool is_announced) const {
  Slices slices = make_slices(datasets);
  if (options_.missing != plan::Missing::nan) {
    std::vector<int64_t> kept = complete_datasets(datasets, slices);
    if (kept.size() < datasets.size()) slices = make_slices(kept);
    datasets = std::move(kept);
  }
  if (!is_announced) {
    for (const auto& slice : slices) slice->announce();
  }
  std::vector<plan::ColumnPlan> plans(variables_.size());
  std::vector<std::vector<std::optional<StringRow>>> strings(plans.size());
  plan::ArenaLayout layout;
  for (size_t i = 0; i < plans.size(); ++i) {
    const uint32_t variable = variables_[i];
    plans[i] = plan::plan_column(std::move(slices[i]), std::string(source_->variable_name(variable)),
                                 source_->type_of(variable), options_.layout, options_.dtype, layout);
    if (!plans[i].is_numeric()) strings[i] = empty_strings(plans[i]);
  }
  ColumnBatch batch{allocate_arena(layout.size(), kind), {}, {}, source_};
  auto* const memory = static_cast<std::byte*>(batch.arena.mutable_data_ptr());
  std::vector<ColumnFiller> fillers;
  fillers.reserve(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    fillers.emplace_back(plans[i], memory, strings[i]);
    write_masks_and_offsets(plans[i], options_.layout, memory);
  }
  read_columns(plans, fillers, parallelism == Parallelism::serial ? 1 : options_.max_threads);
  for (size_t i = 0; i < plans.size(); ++i) {
    batch.columns.push_back(wrap(plans[i], options_.layout, batch.arena, std::move(strings[i])));
  }
  batch.datasets = std::move(datasets);
  return batch;
}

}  // namespace atompack::collate
