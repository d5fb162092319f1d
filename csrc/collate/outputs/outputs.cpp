#include "collate/outputs/outputs.h"

#include <algorithm>

#include "collate/fill/copy.h"
#include "collate/torch_threads.h"

namespace atompack::collate {
namespace {

void write_output(const Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  switch (output.kind) {
    case OutputKind::value:
    case OutputKind::voigt:
      return write_values(output, field, part, to);
    case OutputKind::constant:
      return write_constants(output, part, to);
    case OutputKind::weight:
      return write_weights(output, field, part, to);
    case OutputKind::one_hot:
    case OutputKind::element_index:
      return write_elements(output, part, to);
    case OutputKind::edge_shift:
    case OutputKind::edge_offset:
    case OutputKind::edge_vector:
    case OutputKind::edge_reversed:
    case OutputKind::edge_pairs:
    case OutputKind::edge_count:
    case OutputKind::wrapped_shift:
      return write_edge_output(output, part, to);
    case OutputKind::wrapped_positions:
      return write_wrapped_positions(output, part, to);
    case OutputKind::fractional_positions:
      return write_fractional_positions(output, part, to);
    case OutputKind::cell:
    case OutputKind::lattice:
    case OutputKind::reciprocal_cell:
    case OutputKind::volume:
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

void write_outputs(std::span<const Output> outputs, const OutputInputs& inputs, std::span<const int64_t> borders,
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

}  // namespace atompack::collate
