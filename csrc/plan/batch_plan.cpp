#include "plan/batch_plan.h"

#include <algorithm>
#include <cmath>

#include "model/fields.h"

namespace atompack::plan {
namespace {

std::string lookup_name(Scope scope, std::string_view key) {
  std::string name(1, static_cast<char>(scope));
  return name += key;
}

// A schema may declare fields that no record holds, and missing values take space too. An arena far larger than the
// records justify is a sign of a damaged file.
void check_arena(const BatchPlan& plan, size_t arena_bytes) {
  constexpr uint64_t kAllowedBytes = uint64_t{64} << 20;
  constexpr uint64_t kMaxArenaPerByte = 1024;
  uint64_t decoded = 0;
  for (const MoleculeExtent& extent : plan.extents) decoded += static_cast<uint64_t>(extent.decoded_bytes);
  if (arena_bytes > kAllowedBytes && (arena_bytes - kAllowedBytes) / kMaxArenaPerByte > decoded) {
    throw CorruptFileError(
        cat("the schema promises fields of ", arena_bytes, " bytes for records of ", decoded, " bytes"));
  }
}

// Returns the offset of the values of a field if an output in this type equals them.
std::optional<size_t> equal_field(const BatchPlan& plan, const Output& output) {
  const auto& [scope, key] = output.kind == OutputKind::cell ? FieldId{Scope::builtin, "cell"} : *output.field;
  if (scope == Scope::builtin && key == "positions") {
    return output.dtype == plan.positions ? std::optional(plan.core.positions) : std::nullopt;
  }
  if (scope == Scope::builtin && key == "atomic_numbers") {
    return output.dtype == DType::int64 ? std::optional(plan.core.atomic_numbers) : std::nullopt;
  }
  const int32_t number = plan.table->find(scope, key);
  if (number < 0) return std::nullopt;
  const FieldPlan& field = plan.fields[static_cast<size_t>(number)];
  if (field.ragged || field.type.kind != ValueKind::numeric || field.type.dtype != output.dtype) return std::nullopt;
  return field.offset;
}

// Returns the offset of a tensor of the batch that an output equals, if any.
std::optional<size_t> equal_tensor(const BatchPlan& plan, const Output& output) {
  switch (output.kind) {
    case OutputKind::value:
      // A missing value is NaN in the field too, or 0 for integers.
      if (!std::isnan(output.fill) || output.scale != 1 || !output.references.empty()) return std::nullopt;
      return equal_field(plan, output);
    case OutputKind::cell:
      return output.cutoff == 0 ? equal_field(plan, output) : std::nullopt;
    case OutputKind::edge_shift:
      if (!plan.edges || output.dtype != plan.edges->shift_dtype) return std::nullopt;
      return plan.edges->shift;
    case OutputKind::edge_reversed:
      if (!plan.edges || !plan.edges->has_reversed || output.dtype != DType::int64) return std::nullopt;
      return plan.edges->index + static_cast<size_t>(plan.edges->count()) * sizeof(int64_t);
    default:
      return std::nullopt;
  }
}

void place_ragged(const BatchPlan& plan, FieldPlan& field, ArenaLayout& layout) {
  for (size_t molecule = 0; molecule < field.rows.size(); ++molecule) {
    RaggedRow& row = field.rows[molecule];
    if (!row.present) continue;
    const auto elements = static_cast<uint64_t>(plan.n_rows(field.type.level, molecule) * row.row_shape.numel());
    row.offset = layout.add(elements, item_bytes(field.type.dtype));
  }
}

}  // namespace

int32_t FieldTable::find(Scope scope, std::string_view key) const {
  const auto found = indices_.find(lookup_name(scope, key));
  return found == indices_.end() ? -1 : found->second;
}

int32_t FieldTable::add(const FieldEntry& entry) {
  const auto next = static_cast<int32_t>(fields_.size());
  const auto [index, is_new] = indices_.try_emplace(lookup_name(entry.id.scope, entry.id.key), next);
  if (is_new) fields_.push_back(entry);
  return index->second;
}

void append_rows(BatchPlan& plan, const MoleculeExtent& extent) {
  // No overflow: molecules have fewer than 2^32 atoms, and a file has no more rows than bytes.
  const auto append = [](std::vector<int64_t>& starts, int64_t n) { starts.push_back(starts.back() + n); };
  append(plan.ptr, extent.n_atoms);
  append(plan.edge_ptr, extent.n_edges);
  append(plan.triplet_ptr, extent.n_triplets);
  plan.extents.push_back(extent);
}

void count_rows(const MoleculeSource& source, BatchPlan& plan) {
  for (std::vector<int64_t>* const starts : {&plan.ptr, &plan.edge_ptr, &plan.triplet_ptr}) {
    starts->reserve(plan.indices.size() + 1);
    starts->assign(1, 0);
  }
  plan.extents.reserve(plan.indices.size());
  for (size_t i = 0; i < plan.indices.size(); ++i) {
    // The decoded size of a compressed record is read from its bytes, so these are prefetched.
    const size_t ahead = i + kPrefetchDistance;
    if (ahead < plan.indices.size() && source.needs_scratch(plan.indices[ahead])) source.prefetch(plan.indices[ahead]);
    append_rows(plan, source.extent(plan.indices[i]));
  }
}

void lay_out(BatchPlan& plan, ArenaLayout& layout) {
  const auto molecules = static_cast<uint64_t>(plan.n_molecules());
  const auto atoms = static_cast<uint64_t>(plan.has_structure ? plan.n_atoms() : 0);
  plan.core.positions = layout.add(3 * atoms, item_bytes(plan.positions));
  plan.core.atomic_numbers = layout.add(atoms, sizeof(int64_t));
  plan.core.batch = layout.add(atoms, sizeof(int64_t));
  plan.core.ptr = layout.add(molecules + 1, sizeof(int64_t));
  plan.core.n_atoms = layout.add(molecules, sizeof(int64_t));
  plan.core.index = layout.add(molecules, sizeof(int64_t));
  for (FieldPlan& field : plan.fields) {
    if (field.ragged) {
      place_ragged(plan, field, layout);
    } else if (field.type.kind == ValueKind::numeric) {
      const auto rows = static_cast<uint64_t>(plan.n_rows(field.type.level));
      const uint64_t elements = checked_mul(rows, static_cast<uint64_t>(field.row_elements), "batch size");
      field.offset = layout.add(elements, item_bytes(field.type.dtype));
    }
  }
  plan.core.masks = layout.add(plan.fields.size(), plan.indices.size());
}

void fit_edges(BatchPlan& plan, std::span<const Output> outputs) {
  if (!plan.edges) return;
  Edges& edges = *plan.edges;
  // Shifts are small whole numbers: with outputs, which alone are for users, any type will do.
  edges.shift_dtype = outputs.empty() ? plan.positions : DType::float32;
  const auto shift = std::ranges::find(outputs, OutputKind::edge_shift, &Output::kind);
  if (shift != outputs.end() && is_floating(shift->dtype)) edges.shift_dtype = shift->dtype;
  edges.has_reversed = std::ranges::any_of(outputs, [](const Output& output) {
    return output.kind == OutputKind::edge_reversed && output.dtype == DType::int64;
  });
}

void lay_out(BatchPlan& plan) {
  ArenaLayout layout;
  lay_out(plan, layout);
  check_arena(plan, layout.size());
  if (plan.edges) {
    const auto edges = static_cast<uint64_t>(plan.edges->count());
    plan.edges->index = layout.add((plan.edges->has_reversed ? 3 : 2) * edges, sizeof(int64_t));
    plan.edges->shift = layout.add(3 * edges, item_bytes(plan.edges->shift_dtype));
    if (plan.edges->has_vectors) plan.edges->vector = layout.add(3 * edges, item_bytes(plan.positions));
    if (plan.edges->has_triplets()) {
      const uint64_t triplets = plan.edges->count_triplets();
      plan.edges->triplet_index = layout.add(checked_mul(3, triplets, "batch size"), sizeof(int64_t));
      plan.edges->triplet_edges = layout.add(checked_mul(2, triplets, "batch size"), sizeof(int64_t));
    }
  }
  plan.arena_bytes = layout.size();
}

std::optional<SourceField> field_of(const BatchPlan& plan, const Output& output) {
  if (!output.field) return std::nullopt;
  const auto& [scope, key] = *output.field;
  if (scope == Scope::builtin && key == "positions") return SourceField{Level::atom, {3}};
  if (scope == Scope::builtin && key == "atomic_numbers") return SourceField{Level::atom, {}};
  const int32_t number = plan.table->find(scope, key);
  if (number >= 0) {
    const FieldPlan& field = plan.fields[static_cast<size_t>(number)];
    if (field.type.kind != ValueKind::numeric || field.ragged) {
      throw FieldError("expected numbers of one shape in all molecules").at_field(key);
    }
    return SourceField{field.type.level, {field.row_shape.dims().begin(), field.row_shape.dims().end()}};
  }
  const BuiltinField* const builtin = scope == Scope::builtin ? find_builtin(key) : nullptr;
  if (builtin == nullptr) throw FieldError("no such field").at_field(key);
  return SourceField{builtin->level, {builtin->row.dims().begin(), builtin->row.dims().end()}};
}

void lay_out_outputs(BatchPlan& plan, std::span<const Output> outputs) {
  ArenaLayout layout(plan.arena_bytes);
  const OutputDims dims{plan.n_molecules(), plan.n_atoms(), plan.edges ? plan.edges->count() : 0};
  plan.outputs.clear();
  std::vector<size_t> shared;
  for (const Output& output : outputs) {
    std::vector<int64_t> shape = output_shape(output, dims, field_of(plan, output));
    std::optional<size_t> same = equal_tensor(plan, output);
    // An output that is changed in place must not change another.
    if (same && std::ranges::find(shared, *same) != shared.end()) same.reset();
    if (same) shared.push_back(*same);
    const size_t offset = same ? *same : layout.add(output.dtype, shape);
    plan.outputs.push_back({.shape = std::move(shape), .offset = offset, .is_shared = same.has_value()});
  }
  plan.arena_bytes = layout.size();
}

int64_t total_work(const BatchPlan& plan) {
  int64_t total = 0;
  for (const MoleculeExtent& extent : plan.extents) total += extent.work;
  return total;
}

std::vector<int64_t> split_by_work(const BatchPlan& plan) {
  const int64_t n = plan.n_molecules();
  std::vector<int64_t> borders{0};
  if (plan.max_ranges > 1) {
    const int64_t share = total_work(plan) / plan.max_ranges;
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += plan.extents[static_cast<size_t>(i)].work;
      const auto cut = std::ssize(borders);
      if (cut < plan.max_ranges && sum >= share * cut) borders.push_back(i + 1);
    }
  }
  if (borders.back() != n || n == 0) borders.push_back(n);
  return borders;
}

}  // namespace atompack::plan
