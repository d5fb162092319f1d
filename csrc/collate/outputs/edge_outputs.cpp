// Outputs that are made of neighbor lists.
#include <algorithm>
#include <array>

#include "collate/fill/copy.h"
#include "collate/outputs/outputs.h"

namespace atompack::collate {
namespace {

using physics::Matrix3;
using physics::Vector3;

// Rows (edges, 3) of a molecule as doubles. Keeps its memory between molecules.
class Rows {
 public:
  // Reads the rows of some edges.
  std::span<Vector3> read(const Values& values, int64_t first, int64_t last) {
    rows_.resize(static_cast<size_t>(last - first));
    load(values, 3 * first, flat());
    return rows_;
  }

  // Writes the rows, from edge `first` on.
  void write(DType dtype, int64_t first, std::byte* to) {
    copy_values(to + 3 * static_cast<size_t>(first) * item_bytes(dtype), dtype,
                reinterpret_cast<const std::byte*>(rows_.data()), DType::float64, 3 * rows_.size());
  }

 private:
  std::span<double> flat() { return {rows_.empty() ? nullptr : rows_.front().data(), 3 * rows_.size()}; }

  std::vector<Vector3> rows_;
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

// Replaces the S of the edges of a molecule by S cell.
void multiply(std::span<Vector3> shifts, const Matrix3& cell) {
  for (Vector3& shift : shifts) shift = times_cell(shift, cell);
}

// Adds r_j - r_i to the offsets of the edges of a molecule.
void add_differences(const OutputInputs& inputs, int64_t molecule, int64_t first_edge, Rows& positions,
                     std::span<Vector3> offsets) {
  const int64_t first_atom = inputs.ptr[static_cast<size_t>(molecule)];
  const auto points = positions.read(inputs.positions, first_atom, inputs.ptr[static_cast<size_t>(molecule) + 1]);
  const int64_t* const i = inputs.edge_index.data() + first_edge;
  const int64_t* const j = i + inputs.dims.edges;
  for (size_t edge = 0; edge < offsets.size(); ++edge) {
    const Vector3& from = points[static_cast<size_t>(i[edge] - first_atom)];
    const Vector3& to = points[static_cast<size_t>(j[edge] - first_atom)];
    for (size_t axis = 0; axis < 3; ++axis) offsets[edge][axis] += to[axis] - from[axis];
  }
}

// With w the numbers of cells that atoms are outside: S + w_j - w_i.
void add_wrapping(const OutputPart& part, int64_t molecule, int64_t first_edge, std::span<Vector3> shifts) {
  const OutputInputs& inputs = part.inputs;
  const std::vector<Vector3> away = cells_away(part, molecule);
  const int64_t first_atom = inputs.ptr[static_cast<size_t>(molecule)];
  const int64_t* const i = inputs.edge_index.data() + first_edge;
  const int64_t* const j = i + inputs.dims.edges;
  for (size_t edge = 0; edge < shifts.size(); ++edge) {
    const Vector3& of_i = away[static_cast<size_t>(i[edge] - first_atom)];
    const Vector3& of_j = away[static_cast<size_t>(j[edge] - first_atom)];
    for (size_t axis = 0; axis < 3; ++axis) shifts[edge][axis] += of_j[axis] - of_i[axis];
  }
}

void write_rows_of_edges(const Output& output, const OutputPart& part, std::byte* to) {
  Rows rows, positions;
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const std::span<Vector3> made = rows.read(part.inputs.edge_shift, first, last);
    if (output.kind == OutputKind::wrapped_shift) {
      add_wrapping(part, molecule, first, made);
    } else {
      multiply(made, cell_of(part.inputs, molecule));
      if (output.kind == OutputKind::edge_vector) add_differences(part.inputs, molecule, first, positions, made);
    }
    rows.write(output.dtype, first, to);
  });
}

void write_pairs(const Output& output, const OutputPart& part, std::byte* to) {
  const OutputInputs& inputs = part.inputs;
  std::array<int64_t, 512> pairs;
  constexpr int64_t kAtOnce = pairs.size() / 2;
  for (int64_t first = part.first_edge; first < part.last_edge; first += kAtOnce) {
    const int64_t* const i = inputs.edge_index.data() + first;
    const int64_t* const j = i + inputs.dims.edges;
    const auto n = static_cast<size_t>(std::min(kAtOnce, part.last_edge - first));
    for (size_t edge = 0; edge < n; ++edge) {
      pairs[2 * edge] = i[edge];
      pairs[2 * edge + 1] = j[edge];
    }
    copy_values(to + 2 * static_cast<size_t>(first) * item_bytes(output.dtype), output.dtype,
                reinterpret_cast<const std::byte*>(pairs.data()), DType::int64, 2 * n);
  }
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
  switch (output.kind) {
    case OutputKind::edge_count:
      return write_counts(output, part, to);
    case OutputKind::edge_pairs:
      return write_pairs(output, part, to);
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
    default:
      return write_rows_of_edges(output, part, to);
  }
}

}  // namespace atompack::collate
