// Outputs that are made of the cell, and positions inside of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "collate/copy.h"
#include "collate/outputs.h"

namespace atompack::collate {
namespace {

using physics::dot;
using physics::Matrix3;
using physics::Vector3;

// Rounding in fractional coordinates: atoms so little below a face of the cell stay where they are.
constexpr double kFaceTolerance = 1e-7;

constexpr Matrix3 kIdentity{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double determinant(const Matrix3& cell) { return dot(cell[0], cross(cell[1], cell[2])); }

bool is_zero(const Vector3& vector) { return vector == Vector3{}; }

// Rows of the transposed inverse; the determinant is not 0.
Matrix3 inverse_transposed(const Matrix3& cell) {
  const double volume = determinant(cell);
  Matrix3 made{cross(cell[1], cell[2]), cross(cell[2], cell[0]), cross(cell[0], cell[1])};
  for (Vector3& row : made) {
    for (double& value : row) value /= volume;
  }
  return made;
}

double length_of(const Vector3& vector) { return std::sqrt(dot(vector, vector)); }

// Replaces vectors that are zero by unit vectors that are perpendicular to the others.
void complete(Matrix3& cell) {
  const auto missing = std::ranges::count_if(cell, is_zero);
  if (missing == 3) cell = kIdentity;
  if (missing == 2) {
    const auto known = static_cast<size_t>(std::ranges::find_if_not(cell, is_zero) - cell.begin());
    const Vector3& vector = cell[known];
    // The axis that is most nearly perpendicular to it.
    const auto axis = static_cast<size_t>(
        std::ranges::min_element(vector, {}, [](double value) { return std::abs(value); }) - vector.begin());
    Vector3 unit{};
    unit[axis] = 1;
    cell[(known + 1) % 3] = cross(vector, unit);
    const double length = length_of(cell[(known + 1) % 3]);
    for (double& value : cell[(known + 1) % 3]) value /= length;
  }
  for (size_t d = 0; d < 3; ++d) {
    if (!is_zero(cell[d])) continue;
    cell[d] = cross(cell[(d + 1) % 3], cell[(d + 2) % 3]);
    const double length = length_of(cell[d]);
    if (length == 0) return;
    for (double& value : cell[d]) value /= length;
  }
}

// Calls body(atom, position) for the atoms of a molecule.
template <typename Body>
void for_each_position(const OutputInputs& inputs, int64_t molecule, const Body& body) {
  Vector3 position;
  const int64_t end = inputs.ptr[static_cast<size_t>(molecule) + 1];
  for (int64_t atom = inputs.ptr[static_cast<size_t>(molecule)]; atom < end; ++atom) {
    load(inputs.positions, 3 * atom, position);
    body(atom, position);
  }
}

// The cell with vectors along the axes in open directions, so long that atoms have no images within the cutoff.
Matrix3 closed_cell(const OutputInputs& inputs, int64_t molecule, double cutoff) {
  Matrix3 cell = cell_of(inputs, molecule);
  if (std::ranges::all_of(cell, is_zero)) cell = kIdentity;
  double farthest = 0;
  for_each_position(inputs, molecule, [&](int64_t, const Vector3& position) {
    for (const double value : position) farthest = std::max(farthest, std::abs(value));
  });
  const std::array<bool, 3> periodic = periodic_of(inputs, molecule);
  for (size_t direction = 0; direction < 3; ++direction) {
    if (periodic[direction]) continue;
    cell[direction] = {};
    cell[direction][direction] = (farthest + 1) * 5 * cutoff;
  }
  return cell;
}

// The cell that fractional coordinates refer to.
Matrix3 lattice_of(const OutputInputs& inputs, int64_t molecule, double cutoff) {
  if (periodic_of(inputs, molecule) == std::array<bool, 3>{}) return kIdentity;
  const Matrix3 cell = cell_of(inputs, molecule);
  return determinant(cell) == 0 ? closed_cell(inputs, molecule, cutoff) : cell;
}

Matrix3 cell_for(const plan::Output& output, const OutputInputs& inputs, int64_t molecule) {
  if (output.kind == plan::OutputKind::lattice) return lattice_of(inputs, molecule, output.cutoff);
  return output.cutoff > 0 ? closed_cell(inputs, molecule, output.cutoff) : cell_of(inputs, molecule);
}

void store_doubles(std::span<const double> values, DType dtype, std::byte* to, int64_t first) {
  copy_values(to + static_cast<size_t>(first) * item_bytes(dtype), dtype,
              reinterpret_cast<const std::byte*>(values.data()), DType::float64, values.size());
}

}  // namespace

Matrix3 cell_of(const OutputInputs& inputs, int64_t molecule) {
  std::array<double, 9> values{};
  if (inputs.cell) load(inputs.cell, 9 * molecule, values);
  Matrix3 cell;
  for (size_t i = 0; i < 9; ++i) cell[i / 3][i % 3] = values[i];
  return cell;
}

std::array<bool, 3> periodic_of(const OutputInputs& inputs, int64_t molecule) {
  if (inputs.pbc == nullptr) return {};
  const bool* const of = inputs.pbc + 3 * molecule;
  return {of[0], of[1], of[2]};
}

void write_cells(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const Matrix3 cell = cell_for(output, part.inputs, molecule);
    const double volume = determinant(cell);
    if (output.kind == plan::OutputKind::volume) {
      store_doubles(std::array{volume}, output.dtype, to, molecule);
      continue;
    }
    Matrix3 made = cell;
    if (output.kind == plan::OutputKind::reciprocal_cell) {
      made = volume == 0 ? Matrix3{} : inverse_transposed(cell);
      for (Vector3& row : made) {
        for (double& value : row) value *= 2 * std::numbers::pi;
      }
    }
    for (size_t row = 0; row < 3; ++row) {
      store_doubles(made[row], output.dtype, to, 9 * molecule + 3 * static_cast<int64_t>(row));
    }
  }
}

std::vector<Vector3> cells_away(const OutputPart& part, int64_t molecule) {
  const OutputInputs& inputs = part.inputs;
  const auto n_atoms =
      static_cast<size_t>(inputs.ptr[static_cast<size_t>(molecule) + 1] - inputs.ptr[static_cast<size_t>(molecule)]);
  std::vector<Vector3> away(n_atoms);
  const std::array<bool, 3> periodic = periodic_of(inputs, molecule);
  if (periodic == std::array<bool, 3>{}) return away;
  Matrix3 cell = cell_of(inputs, molecule);
  complete(cell);
  if (determinant(cell) == 0) part.fail(FieldError("the cell is singular").at_field("cell"), molecule);
  const Matrix3 inverse = inverse_transposed(cell);
  size_t number = 0;
  for_each_position(inputs, molecule, [&](int64_t, const Vector3& position) {
    Vector3& of = away[number++];
    for (size_t direction = 0; direction < 3; ++direction) {
      if (periodic[direction]) of[direction] = std::floor(dot(position, inverse[direction]) + kFaceTolerance);
    }
  });
  return away;
}

void write_fractional_positions(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const Matrix3 lattice = lattice_of(part.inputs, molecule, output.cutoff);
    if (determinant(lattice) == 0) part.fail(FieldError("the cell is singular").at_field("cell"), molecule);
    const Matrix3 inverse = inverse_transposed(lattice);
    for_each_position(part.inputs, molecule, [&](int64_t atom, const Vector3& position) {
      const Vector3 made{dot(position, inverse[0]), dot(position, inverse[1]), dot(position, inverse[2])};
      store_doubles(made, output.dtype, to, 3 * atom);
    });
  }
}

void write_wrapped_positions(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const std::vector<Vector3> away = cells_away(part, molecule);
    const Matrix3 cell = cell_of(part.inputs, molecule);
    size_t number = 0;
    for_each_position(part.inputs, molecule, [&](int64_t atom, Vector3 position) {
      const Vector3& cells = away[number++];
      for (size_t axis = 0; axis < 3; ++axis) {
        position[axis] -= cells[0] * cell[0][axis] + cells[1] * cell[1][axis] + cells[2] * cell[2][axis];
      }
      store_doubles(position, output.dtype, to, 3 * atom);
    });
  }
}

// Outputs that are made of neighbor lists.

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

void write_rows_of_edges(const plan::Output& output, const OutputPart& part, std::byte* to) {
  Rows rows, positions;
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const std::span<Vector3> made = rows.read(part.inputs.edge_shift, first, last);
    if (output.kind == plan::OutputKind::wrapped_shift) {
      add_wrapping(part, molecule, first, made);
    } else {
      multiply(made, cell_of(part.inputs, molecule));
      if (output.kind == plan::OutputKind::edge_vector) add_differences(part.inputs, molecule, first, positions, made);
    }
    rows.write(output.dtype, first, to);
  });
}

void write_pairs(const plan::Output& output, const OutputPart& part, std::byte* to) {
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

void write_counts(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const int64_t count = last - first;
    copy_values(to + static_cast<size_t>(molecule) * item_bytes(output.dtype), output.dtype,
                reinterpret_cast<const std::byte*>(&count), DType::int64, 1);
  });
}

}  // namespace

void write_edge_output(const plan::Output& output, const OutputPart& part, std::byte* to) {
  const OutputInputs& inputs = part.inputs;
  const auto n_edges = static_cast<size_t>(part.last_edge - part.first_edge);
  const size_t item = item_bytes(output.dtype);
  switch (output.kind) {
    case plan::OutputKind::edge_count:
      return write_counts(output, part, to);
    case plan::OutputKind::edge_pairs:
      return write_pairs(output, part, to);
    case plan::OutputKind::edge_reversed:
      for (const int64_t row : {0, 1}) {
        const int64_t* const from = inputs.edge_index.data() + (1 - row) * inputs.dims.edges + part.first_edge;
        const auto first = static_cast<size_t>(row * inputs.dims.edges + part.first_edge);
        copy_values(to + first * item, output.dtype, reinterpret_cast<const std::byte*>(from), DType::int64, n_edges);
      }
      return;
    case plan::OutputKind::edge_shift: {
      const auto first = 3 * static_cast<size_t>(part.first_edge);
      const std::byte* const from = inputs.edge_shift.data + first * item_bytes(inputs.edge_shift.dtype);
      return copy_values(to + first * item, output.dtype, from, inputs.edge_shift.dtype, 3 * n_edges);
    }
    default:
      return write_rows_of_edges(output, part, to);
  }
}

}  // namespace atompack::collate
