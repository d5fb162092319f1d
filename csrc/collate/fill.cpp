#include "collate/fill.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collate/arena.h"
#include "collate/copy.h"
#include "collate/edges.h"
#include "collate/survey.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::collate {
namespace {

// Buffer of the thread for the decoded bytes of one record.
std::vector<std::byte>& thread_scratch() {
  thread_local std::vector<std::byte> scratch;
  return scratch;
}

void release_large_scratch() {
  constexpr size_t kMaxKeptBytes = size_t{64} << 20;
  if (thread_scratch().capacity() > kMaxKeptBytes) std::vector<std::byte>().swap(thread_scratch());
}

}  // namespace

Filler::Filler(const MoleculeSource& source, const plan::FieldSet& fields, const plan::BatchPlan& plan,
               const FillOptions& options, std::byte* arena, std::vector<Strings>& strings)
    : source_(source), fields_(fields), plan_(plan), options_(options), arena_(arena), strings_(strings) {
  if (!options.schema) return;
  schema_ = *options.schema;
  const size_t n_declared = source.schemas()[static_cast<size_t>(schema_)].fields.size();
  for (size_t i = 0; i < n_declared; ++i) targets_.push_back(target_of(static_cast<int32_t>(i)));
}

Filler::Target Filler::target_of(int32_t declaration) const {
  Target target;
  const int32_t number = fields_.field_of(schema_, declaration);
  if (number == plan::FieldSet::kSkip) return target;
  target.selected = true;
  const plan::FieldPlan& field = plan_.fields[static_cast<size_t>(number)];
  if (field.ragged || field.type.kind != ValueKind::numeric) return target;
  target.first = arena_ + field.offset;
  target.mask = at<bool>(plan_.core.masks) + number * plan_.n_molecules();
  target.row_bytes = static_cast<size_t>(field.row_elements) * item_bytes(field.type.dtype);
  target.type = field.type;
  target.stored = field.stored;
  target.needs_no_cast =
      field.stored == field.type.dtype && field.stored != DType::boolean && !field.type.is_atom_index;
  return target;
}

// Writes a value whose type and shape the schema determines; the decoder has checked its length. Returns false if the
// value needs the general path.
bool Filler::write_to_target(const FieldView& view, Bytes data) {
  if (view.declaration < 0 || targets_.empty() || view.fault != nullptr) return false;
  const Target& target = targets_[static_cast<size_t>(view.declaration)];
  if (!target.selected) return true;
  const auto row = static_cast<size_t>(row_);
  if (target.first == nullptr || (target.mask[row] && view.scope != Scope::builtin)) return false;
  const auto first_row = static_cast<size_t>(plan_.first_row(target.type.level, row));
  std::byte* const to = target.first + first_row * target.row_bytes;
  if (target.needs_no_cast) {
    std::memcpy(to, data.data(), data.size());
  } else {
    copy(to, target.type, view, data);
  }
  target.mask[row] = true;
  return true;
}

void Filler::copy(std::byte* to, const FieldType& out, const FieldView& view, Bytes data) const {
  const DType stored = view.type.dtype;
  const size_t count = data.size() / item_bytes(stored);
  if (!out.is_atom_index) return copy_values(to, out.dtype, data.data(), stored, count);
  const auto row = static_cast<size_t>(row_);
  try {
    copy_atom_indices(to, data.data(), stored, count, {plan_.ptr[row], plan_.n_rows(Level::atom, row)});
  } catch (CorruptFileError& error) {
    throw error.at_field(view.key);
  }
}

void Filler::fill(int64_t row, Bytes record) {
  row_ = row;
  const int64_t index = plan_.indices[static_cast<size_t>(row)];
  if (!options_.schema) schema_ = source_.schema_of(index);
  const auto n_fields = static_cast<int32_t>(plan_.fields.size());
  for (int32_t i = 0; i < n_fields; ++i) mask(i) = false;
  source_.visit(index, record, *this);
  for (int32_t i = 0; i < n_fields; ++i) {
    if (!mask(i)) write_missing(plan_.fields[static_cast<size_t>(i)], i);
  }
}

void Filler::geometry(const Geometry& geometry) {
  const auto row = static_cast<size_t>(row_);
  const int64_t first = plan_.ptr[row];
  // The decoder has compared the count with the index, but both may have changed since the plan was made.
  if (geometry.n_atoms != plan_.n_rows(Level::atom, row)) {
    throw CorruptFileError("the file was overwritten while it was read: the number of atoms changed");
  }
  at<int64_t>(plan_.core.n_atoms)[row] = geometry.n_atoms;
  at<int64_t>(plan_.core.index)[row] = source_.number(plan_.indices[row]);
  if (!plan_.has_structure) return;
  const auto n = static_cast<size_t>(geometry.n_atoms);
  copy_values(at<std::byte>(plan_.core.positions) + static_cast<size_t>(3 * first) * item_bytes(plan_.positions),
              plan_.positions, geometry.positions.data(), geometry.positions_dtype, 3 * n);
  copy_values(at<std::byte>(plan_.core.atomic_numbers) + static_cast<size_t>(first) * sizeof(int64_t), DType::int64,
              geometry.numbers.data(), geometry.numbers_dtype, n);
  std::fill_n(at<int64_t>(plan_.core.batch) + first, n, row_);
}

int32_t Filler::find(const FieldView& view) const {
  if (view.declaration >= 0) return fields_.field_of(schema_, view.declaration);
  // The schema does not list it, but another file may, or a survey has found it.
  if (const int32_t known = plan_.table->find(view.scope, view.key); known >= 0) return known;
  if (options_.all_fields && !options_.surveyed) throw PlanMismatch{};
  return plan::FieldSet::kSkip;
}

void Filler::field(const FieldView& view, Bytes data) {
  if (write_to_target(view, data)) return;
  const int32_t number = find(view);
  if (number == plan::FieldSet::kSkip) return;
  const plan::FieldPlan& field = plan_.fields[static_cast<size_t>(number)];
  const bool repeated = mask(number) && view.scope != Scope::builtin;  // the last value of a builtin field counts
  if (view.fault != nullptr || repeated) {
    if (options_.tolerant && !options_.surveyed) throw PlanMismatch{};
    if (options_.tolerant) return;
    if (view.fault != nullptr) throw *view.fault;
    throw CorruptFileError("duplicate key").at_field(view.key);
  }
  write(view, data, field, number);
  mask(number) = true;
}

size_t Filler::first_element(const plan::FieldPlan& field) const {
  return static_cast<size_t>(plan_.first_row(field.type.level, static_cast<size_t>(row_)) * field.row_elements);
}

size_t Filler::n_elements(const plan::FieldPlan& field) const {
  return static_cast<size_t>(plan_.n_rows(field.type.level, static_cast<size_t>(row_)) * field.row_elements);
}

void Filler::write(const FieldView& view, Bytes data, const plan::FieldPlan& field, int32_t number) {
  if (view.type.kind != field.type.kind) throw PlanMismatch{};
  if (field.type.kind == ValueKind::string) {
    strings_[static_cast<size_t>(number)][static_cast<size_t>(row_)] = std::string(as_text(data));
    return;
  }
  if (field.type.kind == ValueKind::none) return;
  if (view.type.dtype != field.stored && !options_.surveyed) throw PlanMismatch{};
  if (data.empty() && field.type.level != Level::molecule) return;  // no rows, so that the row shape is meaningless
  std::byte* to = arena_;
  if (field.ragged) {
    const plan::RaggedRow& place = field.rows[static_cast<size_t>(row_)];
    if (!place.present || place.row_shape != view.row_shape) throw PlanMismatch{};
    to += place.offset;
  } else {
    if (view.row_shape != field.row_shape) throw PlanMismatch{};
    to += field.offset + first_element(field) * item_bytes(field.type.dtype);
  }
  copy(to, field.type, view, data);
}

void Filler::write_missing(const plan::FieldPlan& field, int32_t number) {
  if (field.must_be_present) {
    source_.located(plan_.indices[static_cast<size_t>(row_)],
                    [&] { throw fields_.request().absent(plan_.table->fields()[static_cast<size_t>(number)].id); });
  }
  if (field.ragged || field.type.kind != ValueKind::numeric) return;
  const size_t at_byte = field.offset + first_element(field) * item_bytes(field.type.dtype);
  if (field.absent_is_zero) {
    std::memset(arena_ + at_byte, 0, n_elements(field) * item_bytes(field.type.dtype));
  } else {
    plan::fill_missing(arena_ + at_byte, field.type.dtype, n_elements(field));
  }
}

Batch fill_batch(const MoleculeSource& source, const plan::FieldSet& fields, const plan::BatchPlan& plan,
                 const FillOptions& options, const StagedRecords* staged, const at::Tensor& arena) {
  auto* const bytes = static_cast<std::byte*>(arena.mutable_data_ptr());
  std::vector<Strings> strings(plan.fields.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    if (plan.fields[i].type.kind != ValueKind::numeric) strings[i].resize(plan.indices.size());
  }
  std::memcpy(bytes + plan.core.ptr, plan.ptr.data(), plan.ptr.size() * sizeof(int64_t));
  const std::vector<int64_t> borders = plan::split_by_work(plan);
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    Filler filler(source, fields, plan, options, bytes, strings);
    std::vector<std::byte>& scratch = thread_scratch();
    for (auto i = static_cast<size_t>(borders[range]); i < static_cast<size_t>(borders[range + 1]); ++i) {
      const int64_t index = plan.indices[i];
      const size_t ahead = i + plan::kPrefetchDistance;
      if (ahead < plan.indices.size() && !source.needs_scratch(plan.indices[ahead])) {
        source.prefetch(plan.indices[ahead]);
      }
      if (staged != nullptr) {
        filler.fill(static_cast<int64_t>(i), staged->records[i]);
        continue;
      }
      filler.fill(static_cast<int64_t>(i), decode(source, index, plan.extents[i], scratch));
    }
    release_large_scratch();
  });
  if (plan.edges) write_edges(plan, bytes);
  return wrap(plan, arena, std::move(strings));
}

namespace {

void write_part(std::byte* to, const plan::Leaf::Part& part) {
  switch (part.value.kind()) {
    case Kind::boolean:
      *to = std::byte{part.value.boolean()};
      return;
    case Kind::integer:
      store_le(to, part.value.integer());
      return;
    case Kind::real:
      store_le(to, part.value.real());
      return;
    default:
      return copy_out(part.value.array(), {to, part.length});
  }
}

struct Task {
  const plan::Leaf* leaf;
  const plan::Leaf::Part* part;
};

std::vector<Task> list_tasks(const plan::ExamplePlan& plan) {
  std::vector<Task> tasks;
  for (const plan::Leaf& leaf : plan.leaves) {
    for (const plan::Leaf::Part& part : leaf.parts) tasks.push_back({&leaf, &part});
  }
  return tasks;
}

// Splits tasks into ranges of about equal numbers of bytes; returns their borders.
std::vector<size_t> split_by_bytes(const std::vector<Task>& tasks, int64_t n_ranges) {
  uint64_t total = 0, sum = 0;
  for (const Task& task : tasks) total += task.part->length;
  std::vector<size_t> borders{0};
  for (size_t i = 0; i < tasks.size(); ++i) {
    sum += tasks[i].part->length;
    const auto n_full = static_cast<int64_t>(borders.size());
    if (n_full < n_ranges && sum >= total / static_cast<uint64_t>(n_ranges) * static_cast<uint64_t>(n_full)) {
      borders.push_back(i + 1);
    }
  }
  borders.push_back(tasks.size());
  return borders;
}

}  // namespace

void fill_examples(const plan::ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads) {
  auto* const memory = static_cast<std::byte*>(arena.mutable_data_ptr());
  for (const plan::Leaf& leaf : plan.leaves) {
    store(memory + leaf.offset, leaf.content);
  }
  const std::vector<Task> tasks = list_tasks(plan);
  const std::vector<size_t> borders = split_by_bytes(tasks, n_threads);
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    for (size_t i = borders[static_cast<size_t>(range)]; i < borders[static_cast<size_t>(range) + 1]; ++i) {
      write_part(memory + tasks[i].leaf->offset + tasks[i].part->offset, *tasks[i].part);
    }
  });
}

Batch fill_molecules(plan::MoleculesPlan& plan, const at::Tensor& arena, int64_t n_threads) {
  plan.batch.max_ranges = n_threads;
  FillOptions options{.surveyed = true};
  if (plan.source->is_uniform()) options = {.schema = 0};
  Batch batch = fill_batch(*plan.source, *plan.fields, plan.batch, options, nullptr, arena);
  std::ranges::copy(plan.numbers, batch.index.mutable_data_ptr<int64_t>());
  return batch;
}

std::vector<at::Tensor> wrap_examples(const plan::ExamplePlan& plan, const at::Tensor& arena) {
  std::vector<at::Tensor> views;
  views.reserve(plan.leaves.size());
  for (const plan::Leaf& leaf : plan.leaves) views.push_back(view_arena(arena, leaf.dtype, leaf.offset, leaf.shape));
  return views;
}

namespace {

// Returns a view of shape (rows, *row_shape).
at::Tensor view_rows(const at::Tensor& arena, const plan::FieldPlan& field, size_t offset, int64_t rows,
                     const Shape& row_shape) {
  Shape shape{rows};
  for (const int64_t dim : row_shape.dims()) shape.push_back(dim);
  return view_arena(arena, field.type.dtype, offset, shape.dims());
}

TensorList view_ragged(const plan::BatchPlan& plan, const at::Tensor& arena, const plan::FieldPlan& field) {
  TensorList list(field.rows.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const plan::RaggedRow& row = field.rows[i];
    if (!row.present) continue;
    if (field.type.level == Level::molecule) {
      list[i] = view_arena(arena, field.type.dtype, row.offset, row.row_shape.dims());
    } else {
      list[i] = view_rows(arena, field, row.offset, plan.n_rows(field.type.level, i), row.row_shape);
    }
  }
  return list;
}

}  // namespace

Batch wrap(const plan::BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings) {
  const int64_t molecules = plan.n_molecules();
  const int64_t atoms = plan.has_structure ? plan.n_atoms() : 0;
  const auto view = [&](DType dtype, size_t offset, auto... sizes) {
    return view_arena(arena, dtype, offset, std::array<int64_t, sizeof...(sizes)>{sizes...});
  };
  Batch batch;
  batch.arena = arena;
  batch.positions = view(plan.positions, plan.core.positions, atoms, int64_t{3});
  batch.atomic_numbers = view(DType::int64, plan.core.atomic_numbers, atoms);
  batch.batch = view(DType::int64, plan.core.batch, atoms);
  batch.ptr = view(DType::int64, plan.core.ptr, molecules + 1);
  batch.n_atoms = view(DType::int64, plan.core.n_atoms, molecules);
  batch.index = view(DType::int64, plan.core.index, molecules);
  if (plan.edges) {
    const int64_t edges = plan.edges->count();
    batch.edges.push_back(view(DType::int64, plan.edges->index, int64_t{2}, edges));
    batch.edges.push_back(view(plan.edges->shift_dtype, plan.edges->shift, edges, int64_t{3}));
    if (plan.edges->has_vectors) batch.edges.push_back(view(plan.positions, plan.edges->vector, edges, int64_t{3}));
    if (plan.edges->has_triplets()) {
      const auto triplets = static_cast<int64_t>(plan.edges->count_triplets());
      batch.edges.push_back(view(DType::int64, plan.edges->triplet_index, int64_t{3}, triplets));
      batch.edges.push_back(view(DType::int64, plan.edges->triplet_edges, int64_t{2}, triplets));
    }
  }
  batch.masks = view(DType::boolean, plan.core.masks, std::ssize(plan.fields), molecules);
  batch.table = plan.table;
  batch.values.reserve(plan.fields.size());
  for (size_t i = 0; i < plan.fields.size(); ++i) {
    const plan::FieldPlan& field = plan.fields[i];
    if (field.type.kind != ValueKind::numeric) {
      batch.values.emplace_back(std::move(strings[i]));
    } else if (field.ragged) {
      batch.values.emplace_back(view_ragged(plan, arena, field));
    } else {
      batch.values.emplace_back(view_rows(arena, field, field.offset, plan.n_rows(field.type.level), field.row_shape));
    }
  }
  return batch;
}

}  // namespace atompack::collate
