#include "collate/outputs/batch_outputs.h"

#include <array>

#include "collate/outputs/outputs.h"
#include "collate/tensor_checks.h"
#include "model/fields.h"

namespace atompack::collate {
namespace {

Values values_in(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), dtype_of(tensor.scalar_type())};
}

std::span<const int64_t> integers_in(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

// Returns the values of a builtin field of a batch; no values if the batch lacks it.
Values builtin_in(const BatchPlan& plan, const Batch& batch, std::string_view key) {
  const int32_t number = plan.table->find(Scope::builtin, key);
  if (number < 0) return {};
  const auto* const tensor = std::get_if<at::Tensor>(&batch.values[static_cast<size_t>(number)]);
  return tensor == nullptr ? Values{} : values_in(*tensor);
}

FieldValues field_in(const BatchPlan& plan, const Batch& batch, const Output& output) {
  const std::optional<SourceField> described = field_of(plan, output);
  if (!described) return {};
  FieldValues field;
  field.level = described->level;
  for (const int64_t dim : described->row_shape) field.row_elements *= dim;
  const auto& [scope, key] = *output.field;
  const int32_t number = plan.table->find(scope, key);
  if (number >= 0) {
    field.values = values_in(std::get<at::Tensor>(batch.values[static_cast<size_t>(number)]));
    // A molecule without cell is not periodic, which is no missing value.
    if (!is_geometry(scope, key)) field.mask = batch.masks.const_data_ptr<bool>() + number * plan.n_molecules();
  } else if (scope == Scope::builtin && key == "positions") {
    field.values = values_in(batch.positions);
  } else if (scope == Scope::builtin && key == "atomic_numbers") {
    field.values = values_in(batch.atomic_numbers);
  }
  return field;
}

// Throws FieldError unless centers ascend and both atoms of each edge are in one molecule.
void check_edges(const OutputInputs& inputs) {
  const auto n = static_cast<size_t>(inputs.dims.edges);
  const auto centers = inputs.edge_index.first(n), others = inputs.edge_index.last(n);
  size_t molecule = 0;
  for (size_t edge = 0; edge < n; ++edge) {
    const bool ascends = centers[edge] >= (edge == 0 ? 0 : centers[edge - 1]);
    while (molecule + 1 < inputs.ptr.size() && inputs.ptr[molecule + 1] <= centers[edge]) ++molecule;
    const bool is_atom = centers[edge] < inputs.dims.atoms;
    if (ascends && is_atom && others[edge] >= inputs.ptr[molecule] && others[edge] < inputs.ptr[molecule + 1]) continue;
    throw FieldError(
        cat("expected edges sorted by their first atom, between atoms of one molecule; edge ", edge, " is not"))
        .at_field("edge_index");
  }
}

}  // namespace

void add_outputs(const MoleculeSource& source, std::span<const Output> outputs, const BatchPlan& plan, Batch& batch) {
  OutputInputs inputs;
  inputs.dims = {plan.n_molecules(), plan.n_atoms(), plan.edges ? plan.edges->count() : 0};
  inputs.ptr = plan.ptr;
  inputs.atomic_numbers = integers_in(batch.atomic_numbers);
  inputs.positions = values_in(batch.positions);
  inputs.cell = builtin_in(plan, batch, "cell");
  inputs.pbc = reinterpret_cast<const bool*>(builtin_in(plan, batch, "pbc").data);
  if (plan.edges) {
    inputs.edge_index = integers_in(batch.edges[0]);
    inputs.edge_shift = values_in(batch.edges[1]);
  }
  std::vector<std::byte*> places;
  auto* const arena = static_cast<std::byte*>(batch.arena.mutable_data_ptr());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [shape, offset, is_shared] = plan.outputs[i];
    inputs.fields.push_back(field_in(plan, batch, outputs[i]));
    batch.outputs.push_back(view_arena(batch.arena, outputs[i].dtype, offset, shape));
    places.push_back(is_shared ? nullptr : arena + offset);
  }
  write_outputs(outputs, inputs, split_by_work(plan), places,
                [&](DataError& error, int64_t row) { source.locate(error, plan.indices[static_cast<size_t>(row)]); });
}

std::vector<at::Tensor> make_outputs(std::span<const Output> outputs, const BatchTensors& tensors,
                                     std::span<const std::optional<FieldTensor>> fields) {
  const int64_t atoms = tensors.positions.size(0), molecules = tensors.ptr.numel() - 1;
  expect_ptr(tensors.ptr, atoms);
  expect_tensor(tensors.atomic_numbers, "atomic_numbers", at::kLong, {atoms});
  std::vector<at::Tensor> kept;  // copies in plain memory
  const auto plain = [&](const at::Tensor& tensor) { return values_in(kept.emplace_back(in_plain_memory(tensor))); };
  const auto expect = [](const at::Tensor& tensor, const char* name, at::IntArrayRef sizes) {
    expect_tensor(tensor, name, tensor.scalar_type(), sizes);
  };
  OutputInputs inputs;
  inputs.dims = {molecules, atoms, tensors.edge_index ? tensors.edge_index->size(1) : 0};
  expect(tensors.positions, "positions", {atoms, 3});
  inputs.positions = plain(tensors.positions);
  const at::Tensor numbers = in_plain_memory(tensors.atomic_numbers), ptr = in_plain_memory(tensors.ptr);
  inputs.atomic_numbers = integers_in(numbers);
  inputs.ptr = integers_in(ptr);
  if (tensors.cell) {
    expect(*tensors.cell, "cell", {molecules, 3, 3});
    inputs.cell = plain(*tensors.cell);
  }
  if (tensors.pbc) {
    expect_tensor(*tensors.pbc, "pbc", at::kBool, {molecules, 3});
    inputs.pbc = reinterpret_cast<const bool*>(plain(*tensors.pbc).data);
  }
  at::Tensor edge_index;
  if (tensors.edge_index) {
    expect_tensor(*tensors.edge_index, "edge_index", at::kLong, {2, inputs.dims.edges});
    edge_index = in_plain_memory(*tensors.edge_index);
    inputs.edge_index = integers_in(edge_index);
    check_edges(inputs);
    if (!tensors.edge_shift) throw FieldError("edge_index: expected edge_shift too");
    expect(*tensors.edge_shift, "edge_shift", {inputs.dims.edges, 3});
    inputs.edge_shift = plain(*tensors.edge_shift);
  }
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    FieldValues& field = inputs.fields.emplace_back();
    std::optional<SourceField> described;
    if (fields[i]) {
      const auto& [level, row_shape, values, mask] = *fields[i];
      described = SourceField{level, row_shape};
      field.level = level;
      for (const int64_t dim : row_shape) field.row_elements *= dim;
      if (values) {
        std::vector<int64_t> sizes{level == Level::atom ? atoms : molecules};
        sizes.insert(sizes.end(), row_shape.begin(), row_shape.end());
        expect(*values, outputs[i].field->key.c_str(), sizes);
        field.values = plain(*values);
      }
      if (mask) {
        expect_tensor(*mask, "mask", at::kBool, {molecules});
        field.mask = reinterpret_cast<const bool*>(plain(*mask).data);
      }
    }
    specs.push_back({outputs[i].dtype, output_shape(outputs[i], inputs.dims, described)});
  }
  ArenaTensors made = allocate_tensors(specs, ArenaKind::heap);
  std::vector<std::byte*> places;
  for (const at::Tensor& view : made.views) places.push_back(static_cast<std::byte*>(view.mutable_data_ptr()));
  write_outputs(outputs, inputs, std::array<int64_t, 2>{0, molecules}, places,
                [](DataError& error, int64_t row) { error.at_molecule(row); });
  return std::move(made.views);
}

}  // namespace atompack::collate
