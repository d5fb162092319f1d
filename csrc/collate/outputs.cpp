#include "collate/outputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "collate/copy.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "model/element.h"
#include "model/fields.h"

namespace atompack::collate {
namespace {

void write_output(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  switch (output.kind) {
    case plan::OutputKind::value:
    case plan::OutputKind::voigt:
      return write_values(output, field, part, to);
    case plan::OutputKind::constant:
      return write_constants(output, part, to);
    case plan::OutputKind::weight:
      return write_weights(output, field, part, to);
    case plan::OutputKind::one_hot:
    case plan::OutputKind::element_index:
      return write_elements(output, part, to);
    case plan::OutputKind::edge_shift:
    case plan::OutputKind::edge_offset:
    case plan::OutputKind::edge_vector:
    case plan::OutputKind::edge_reversed:
    case plan::OutputKind::edge_pairs:
    case plan::OutputKind::edge_count:
    case plan::OutputKind::wrapped_shift:
      return write_edge_output(output, part, to);
    case plan::OutputKind::wrapped_positions:
      return write_wrapped_positions(output, part, to);
    case plan::OutputKind::fractional_positions:
      return write_fractional_positions(output, part, to);
    case plan::OutputKind::cell:
    case plan::OutputKind::lattice:
    case plan::OutputKind::reciprocal_cell:
    case plan::OutputKind::volume:
      return write_cells(output, part, to);
  }
  throw InternalError("kind of an output out of range");
}

// Number of the first edge of an atom or a later one.
int64_t first_edge_of(const OutputInputs& inputs, int64_t atom) {
  const auto centers = inputs.edge_index.first(static_cast<size_t>(inputs.dims.edges));
  return std::ranges::lower_bound(centers, atom) - centers.begin();
}

}  // namespace

void load(const Values& values, int64_t first, std::span<double> to) {
  // Booleans in a batch are 0 or 1.
  const DType from = values.dtype == DType::boolean ? DType::uint8 : values.dtype;
  const std::byte* const data = values.data + static_cast<size_t>(first) * item_bytes(from);
  copy_values(reinterpret_cast<std::byte*>(to.data()), DType::float64, data, from, to.size());
}

void write_outputs(std::span<const plan::Output> outputs, const OutputInputs& inputs, std::span<const int64_t> borders,
                   std::span<std::byte* const> to, const std::function<void(DataError&, int64_t row)>& locate) {
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    const int64_t first = borders[static_cast<size_t>(range)];
    const int64_t last = borders[static_cast<size_t>(range) + 1];
    const OutputPart part{.first_molecule = first,
                          .last_molecule = last,
                          .first_edge = first_edge_of(inputs, inputs.ptr[static_cast<size_t>(first)]),
                          .last_edge = first_edge_of(inputs, inputs.ptr[static_cast<size_t>(last)]),
                          .inputs = inputs,
                          .locate = locate};
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (to[i] != nullptr) write_output(outputs[i], inputs.fields[i], part, to[i]);
    }
  });
}

namespace {

Values values_in(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), dtype_of(tensor.scalar_type())};
}

// Returns the values of a builtin field of a batch; no values if the batch lacks it.
Values builtin_in(const plan::BatchPlan& plan, const Batch& batch, std::string_view key) {
  const int32_t number = plan.table->find(Scope::builtin, key);
  if (number < 0) return {};
  const auto* const tensor = std::get_if<at::Tensor>(&batch.values[static_cast<size_t>(number)]);
  return tensor == nullptr ? Values{} : values_in(*tensor);
}

FieldValues field_in(const plan::BatchPlan& plan, const Batch& batch, const plan::Output& output) {
  const std::optional<plan::SourceField> described = plan::field_of(plan, output);
  if (!described) return {};
  FieldValues field;
  field.level = described->level;
  for (const int64_t dim : described->row_shape) field.row_elements *= dim;
  const auto& [scope, key] = *output.field;
  const int32_t number = plan.table->find(scope, key);
  if (number >= 0) {
    field.values = values_in(std::get<at::Tensor>(batch.values[static_cast<size_t>(number)]));
    // A molecule without cell is not periodic, which is not a missing value.
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

void add_outputs(const MoleculeSource& source, std::span<const plan::Output> outputs, const plan::BatchPlan& plan,
                 Batch& batch) {
  OutputInputs inputs;
  inputs.dims = {plan.n_molecules(), plan.n_atoms(), plan.edges ? plan.edges->count() : 0};
  inputs.ptr = plan.ptr;
  inputs.atomic_numbers = items_of<int64_t>(batch.atomic_numbers);
  inputs.positions = values_in(batch.positions);
  inputs.cell = builtin_in(plan, batch, "cell");
  inputs.pbc = reinterpret_cast<const bool*>(builtin_in(plan, batch, "pbc").data);
  if (plan.edges) {
    inputs.edge_index = items_of<int64_t>(batch.edges[0]);
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
  write_outputs(outputs, inputs, plan::split_by_work(plan), places,
                [&](DataError& error, int64_t row) { source.locate(error, plan.indices[static_cast<size_t>(row)]); });
}

std::vector<at::Tensor> make_outputs(std::span<const plan::Output> outputs, const BatchTensors& tensors,
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
  inputs.atomic_numbers = items_of<int64_t>(numbers);
  inputs.ptr = items_of<int64_t>(ptr);
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
    inputs.edge_index = items_of<int64_t>(edge_index);
    check_edges(inputs);
    if (!tensors.edge_shift) throw FieldError("edge_index: expected edge_shift too");
    expect(*tensors.edge_shift, "edge_shift", {inputs.dims.edges, 3});
    inputs.edge_shift = plain(*tensors.edge_shift);
  }
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    FieldValues& field = inputs.fields.emplace_back();
    std::optional<plan::SourceField> described;
    if (fields[i]) {
      const auto& [level, row_shape, values, mask] = *fields[i];
      described = plan::SourceField{level, row_shape};
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
    specs.push_back({outputs[i].dtype, plan::output_shape(outputs[i], inputs.dims, described)});
  }
  ArenaTensors made = allocate_tensors(specs, ArenaKind::heap);
  std::vector<std::byte*> places;
  for (const at::Tensor& view : made.views) places.push_back(static_cast<std::byte*>(view.mutable_data_ptr()));
  write_outputs(outputs, inputs, std::array<int64_t, 2>{0, molecules}, places,
                [](DataError& error, int64_t row) { error.at_molecule(row); });
  return std::move(made.views);
}

// Outputs that are made of atomic numbers.

namespace {

[[noreturn]] void refuse_element(int64_t number, int64_t molecule, const plan::Output& output, const OutputPart& part) {
  std::string known;
  for (size_t element = 0; element < output.columns.size(); ++element) {
    if (output.columns[element] < 0 || element > kLastElement) continue;
    known += cat(known.empty() ? "" : ", ", symbol_of(static_cast<uint8_t>(element)));
  }
  const bool has_symbol = number >= 0 && number <= kLastElement;
  const std::string got = has_symbol ? std::string(symbol_of(static_cast<uint8_t>(number))) : cat("element ", number);
  part.fail(FieldError(cat("expected elements of the model (", known, "), got ", got)).at_field("atomic_numbers"),
            molecule);
}

// Returns the column of each atom of a part.
std::vector<int64_t> columns_of(const plan::Output& output, const OutputPart& part) {
  std::vector<int64_t> columns;
  columns.reserve(static_cast<size_t>(part.last_atom() - part.first_atom()));
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const int64_t end = part.inputs.ptr[static_cast<size_t>(molecule) + 1];
    for (int64_t atom = part.inputs.ptr[static_cast<size_t>(molecule)]; atom < end; ++atom) {
      const int64_t number = part.inputs.atomic_numbers[static_cast<size_t>(atom)];
      const bool is_listed = number >= 0 && number < std::ssize(output.columns);
      const int64_t column = is_listed ? output.columns[static_cast<size_t>(number)] : -1;
      if (column < 0) refuse_element(number, molecule, output, part);
      columns.push_back(column);
    }
  }
  return columns;
}

}  // namespace

void write_elements(const plan::Output& output, const OutputPart& part, std::byte* to) {
  const std::vector<int64_t> columns = columns_of(output, part);
  const size_t item = item_bytes(output.dtype);
  const auto first = static_cast<size_t>(part.first_atom());
  if (output.kind == plan::OutputKind::element_index) {
    const auto* const from = reinterpret_cast<const std::byte*>(columns.data());
    return copy_values(to + first * item, output.dtype, from, DType::int64, columns.size());
  }
  const int64_t one = 1;
  std::array<std::byte, 8> set{};
  copy_values(set.data(), output.dtype, reinterpret_cast<const std::byte*>(&one), DType::int64, 1);
  const plan::OutputDims& dims = part.inputs.dims;
  const auto width = static_cast<size_t>(plan::output_shape(output, dims, std::nullopt)[1]);
  std::byte* row = to + first * width * item;
  std::memset(row, 0, columns.size() * width * item);
  for (const int64_t column : columns) {
    std::memcpy(row + static_cast<size_t>(column) * item, set.data(), item);
    row += width * item;
  }
}

// Outputs that are made of a field: labels with a value where they are missing, weights.

namespace {

std::byte* place(std::byte* to, DType dtype, int64_t element) {
  return to + static_cast<size_t>(element) * item_bytes(dtype);
}

void store(std::span<const double> from, DType dtype, std::byte* to) {
  if (dtype == DType::boolean) {
    std::ranges::transform(from, to, [](double value) { return std::byte{value != 0}; });
  } else {
    copy_values(to, dtype, reinterpret_cast<const std::byte*>(from.data()), DType::float64, from.size());
  }
}

// True if the integer type, or boolean, holds the value.
bool holds(DType dtype, double value) {
  if (!std::isfinite(value) || value != std::trunc(value)) return false;
  if (dtype == DType::boolean) return value == 0 || value == 1;
  const auto bits = static_cast<int>(8 * item_bytes(dtype));
  const bool is_signed = dtype >= DType::int8;
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  return value < end && value >= (is_signed ? -end : 0);
}

// Writer of the values of one field.
class ValueWriter {
 public:
  ValueWriter(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to)
      : output_(output),
        field_(field),
        part_(part),
        to_(to),
        row_elements_(output.kind == plan::OutputKind::voigt ? 6 : field.row_elements),
        fill_(std::isnan(output.fill) && !is_floating(output.dtype) ? 0 : output.fill) {}

  void write(int64_t molecule) {
    const int64_t first = field_.level == Level::atom ? ptr(molecule) : molecule;
    const int64_t rows = field_.level == Level::atom ? ptr(molecule + 1) - first : 1;
    const int64_t count = rows * row_elements_;
    std::byte* const to = place(to_, output_.dtype, first * row_elements_);
    if (!field_.values || (field_.mask != nullptr && !field_.mask[molecule])) {
      values_.assign(static_cast<size_t>(count), fill_);
      return store(values_, output_.dtype, to);
    }
    if (is_plain()) {
      const std::byte* const from = field_.values.data + static_cast<size_t>(first * row_elements_) * bytes_of_value();
      return copy_values(to, output_.dtype, from, field_.values.dtype, static_cast<size_t>(count));
    }
    read(first, count);
    if (!output_.references.empty()) values_.front() -= sum_of_references(molecule);
    if (output_.scale != 1) {
      for (double& value : values_) value *= output_.scale;
    }
    if (!is_floating(output_.dtype)) check_integers(molecule);
    store(values_, output_.dtype, to);
  }

 private:
  int64_t ptr(int64_t molecule) const { return part_.inputs.ptr[static_cast<size_t>(molecule)]; }
  size_t bytes_of_value() const { return item_bytes(field_.values.dtype); }

  // True if values are only converted to another width, which holds them.
  bool is_plain() const {
    const DType from = field_.values.dtype, to = output_.dtype;
    const bool fits = from == to || (from != DType::boolean && is_floating(to)) ||
                      (from == DType::uint8 && is_integer(to) && to != DType::int8);
    return fits && output_.kind == plan::OutputKind::value && output_.scale == 1 && output_.references.empty();
  }

  void read(int64_t first, int64_t count) {
    if (output_.kind != plan::OutputKind::voigt) {
      values_.resize(static_cast<size_t>(count));
      return load(field_.values, first * row_elements_, values_);
    }
    std::array<double, 9> tensor{};
    load(field_.values, first * 9, tensor);
    values_.clear();
    for (const int64_t element : output_.order) values_.push_back(tensor.at(static_cast<size_t>(element)));
  }

  double sum_of_references(int64_t molecule) const {
    double sum = 0;
    for (int64_t atom = ptr(molecule); atom < ptr(molecule + 1); ++atom) {
      const auto number = static_cast<size_t>(part_.inputs.atomic_numbers[static_cast<size_t>(atom)]);
      const double energy = number < output_.references.size() ? output_.references[number] : NAN;
      if (std::isnan(energy)) {
        part_.fail(FieldError(cat("no reference energy of element ", number)).at_field(output_.field->key), molecule);
      }
      sum += energy;
    }
    return sum;
  }

  void check_integers(int64_t molecule) const {
    const auto wrong = std::ranges::find_if(values_, [&](double value) { return !holds(output_.dtype, value); });
    if (wrong == values_.end()) return;
    FieldError error(cat("expected integers that ", name_of(output_.dtype), " holds, got ", *wrong));
    part_.fail(error.at_field(output_.field->key), molecule);
  }

  const plan::Output& output_;
  const FieldValues& field_;
  const OutputPart& part_;
  std::byte* to_;
  int64_t row_elements_;
  double fill_;
  std::vector<double> values_;  // of one molecule
};

}  // namespace

void write_values(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  ValueWriter writer(output, field, part, to);
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) writer.write(molecule);
}

void write_constants(const plan::Output& output, const OutputPart& part, std::byte* to) {
  const bool is_of_atoms = output.level == Level::atom;
  const int64_t first = is_of_atoms ? part.first_atom() : part.first_molecule;
  const int64_t last = is_of_atoms ? part.last_atom() : part.last_molecule;
  int64_t row_elements = 1;
  for (const int64_t dim : output.row_shape) row_elements *= dim;
  std::byte* const begin = place(to, output.dtype, first * row_elements);
  const auto n_bytes = static_cast<size_t>((last - first) * row_elements) * item_bytes(output.dtype);
  if (output.fill == 0) {
    std::memset(begin, 0, n_bytes);
  } else {
    store(std::vector(static_cast<size_t>((last - first) * row_elements), output.fill), output.dtype, begin);
  }
}

void write_weights(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const bool is_present = field.values && (field.mask == nullptr || field.mask[molecule]);
    store(std::array{is_present ? output.scale : 0.0}, output.dtype, place(to, output.dtype, molecule));
  }
}

}  // namespace atompack::collate
