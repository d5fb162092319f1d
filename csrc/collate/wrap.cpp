#include "collate/wrap.h"

#include <array>

#include "collate/arena/arena.h"

namespace atompack::collate {
namespace {

// Returns a view of shape (rows, *row_shape).
at::Tensor view_rows(const at::Tensor& arena, const FieldPlan& field, size_t offset, int64_t rows,
                     const Shape& row_shape) {
  Shape shape{rows};
  for (const int64_t dim : row_shape.dims()) shape.push_back(dim);
  return view_arena(arena, field.type.dtype, offset, shape.dims());
}

TensorList view_ragged(const BatchPlan& plan, const at::Tensor& arena, const FieldPlan& field) {
  TensorList list(field.rows.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const RaggedRow& row = field.rows[i];
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

Batch wrap(const BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings) {
  const int64_t molecules = plan.n_molecules();
  const int64_t atoms = plan.n_atoms();
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
    const FieldPlan& field = plan.fields[i];
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
