// Outputs that are made of neighbor lists.
#include <algorithm>
#include <array>

#include "collate/fill/copy.h"
#include "collate/outputs/outputs.h"

namespace atompack::collate {
namespace {

using physics::Matrix3;
using physics::Vector3;

// Rows of an edge output, written a few at a time.
class EdgeRows {
 public:
  EdgeRows(DType dtype, std::byte* to, int64_t first)
      : dtype_(dtype), next_(to + 3 * static_cast<size_t>(first) * item_bytes(dtype)) {}

  void add(const Vector3& row) {
    std::ranges::copy(row, values_.begin() + static_cast<std::ptrdiff_t>(n_values_));
    n_values_ += 3;
    if (n_values_ == values_.size()) flush();
  }

  void flush() {
    copy_values(next_, dtype_, reinterpret_cast<const std::byte*>(values_.data()), DType::float64, n_values_);
    next_ += n_values_ * item_bytes(dtype_);
    n_values_ = 0;
  }

 private:
  DType dtype_;
  std::byte* next_;
  std::array<double, 192> values_;
  size_t n_values_ = 0;
};

Vector3 times_cell(const Vector3& cells, const Matrix3& cell) {
  Vector3 made;
  for (size_t axis = 0; axis < 3; ++axis) {
    made[axis] = cells[0] * cell[0][axis] + cells[1] * cell[1][axis] + cells[2] * cell[2][axis];
  }
  return made;
}

// Calls body(molecule, first edge, last edge) for the molecules of a part.
template <typename Body>
void for_each_molecule(const OutputPart& part, const Body& body) {
  const OutputInputs& inputs = part.inputs;
  const auto centers = inputs.edge_index.first(static_cast<size_t>(inputs.dims.edges));
  int64_t first = part.first_edge;
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const int64_t end = inputs.ptr[static_cast<size_t>(molecule) + 1];
    const auto rest = centers.subspan(static_cast<size_t>(first), static_cast<size_t>(part.last_edge - first));
    const int64_t last = first + (std::ranges::lower_bound(rest, end) - rest.begin());
    body(molecule, first, last);
    first = last;
  }
}

void write_edge_vectors(const OutputPart& part, EdgeRows& rows) {
  const OutputInputs& inputs = part.inputs;
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const Matrix3 cell = cell_of(inputs, molecule);
    Vector3 shift, from, to;
    for (int64_t edge = first; edge < last; ++edge) {
      load(inputs.edge_shift, 3 * edge, shift);
      load(inputs.positions, 3 * inputs.edge_index[static_cast<size_t>(edge)], from);
      load(inputs.positions, 3 * inputs.edge_index[static_cast<size_t>(inputs.dims.edges + edge)], to);
      Vector3 vector = times_cell(shift, cell);
      for (size_t axis = 0; axis < 3; ++axis) vector[axis] += to[axis] - from[axis];
      rows.add(vector);
    }
  });
}

void write_offsets(const OutputPart& part, EdgeRows& rows) {
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const Matrix3 cell = cell_of(part.inputs, molecule);
    Vector3 shift;
    for (int64_t edge = first; edge < last; ++edge) {
      load(part.inputs.edge_shift, 3 * edge, shift);
      rows.add(times_cell(shift, cell));
    }
  });
}

// With w the numbers of cells that atoms are outside: S + w_j - w_i.
void write_wrapped_shifts(const OutputPart& part, EdgeRows& rows) {
  const OutputInputs& inputs = part.inputs;
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const std::vector<Vector3> away = cells_away(part, molecule);
    const int64_t first_atom = inputs.ptr[static_cast<size_t>(molecule)];
    Vector3 shift;
    for (int64_t edge = first; edge < last; ++edge) {
      load(inputs.edge_shift, 3 * edge, shift);
      const int64_t i = inputs.edge_index[static_cast<size_t>(edge)] - first_atom;
      const int64_t j = inputs.edge_index[static_cast<size_t>(inputs.dims.edges + edge)] - first_atom;
      const Vector3 &of_i = away.at(static_cast<size_t>(i)), &of_j = away.at(static_cast<size_t>(j));
      for (size_t axis = 0; axis < 3; ++axis) shift[axis] += of_j[axis] - of_i[axis];
      rows.add(shift);
    }
  });
}

void write_counts(const Output& output, const OutputPart& part, std::byte* to) {
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const int64_t count = last - first;
    copy_values(to + static_cast<size_t>(molecule) * item_bytes(output.dtype), output.dtype,
                reinterpret_cast<const std::byte*>(&count), DType::int64, 1);
  });
}

}  // namespace

void write_edge_output(const Output& output, const OutputPart& part, std::byte* to) {
  const OutputInputs& inputs = part.inputs;
  const auto n_edges = static_cast<size_t>(part.last_edge - part.first_edge);
  const size_t item = item_bytes(output.dtype);
  EdgeRows rows(output.dtype, to, part.first_edge);
  switch (output.kind) {
    case OutputKind::edge_count:
      return write_counts(output, part, to);
    case OutputKind::edge_reversed:
      for (const int64_t row : {0, 1}) {
        const int64_t* const from = inputs.edge_index.data() + (1 - row) * inputs.dims.edges + part.first_edge;
        const auto first = static_cast<size_t>(row * inputs.dims.edges + part.first_edge);
        copy_values(to + first * item, output.dtype, reinterpret_cast<const std::byte*>(from), DType::int64, n_edges);
      }
      return;
    case OutputKind::edge_shift: {
      const auto first = 3 * static_cast<size_t>(part.first_edge);
      const std::byte* const from = inputs.edge_shift.data + first * item_bytes(inputs.edge_shift.dtype);
      return copy_values(to + first * item, output.dtype, from, inputs.edge_shift.dtype, 3 * n_edges);
    }
    case OutputKind::edge_offset:
      write_offsets(part, rows);
      break;
    case OutputKind::edge_vector:
      write_edge_vectors(part, rows);
      break;
    default:
      write_wrapped_shifts(part, rows);
  }
  rows.flush();
}

}  // namespace atompack::collate
