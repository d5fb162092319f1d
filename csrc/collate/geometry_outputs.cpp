// Outputs that are made of the cell, and positions inside of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "base/error.h"
#include "collate/copy.h"
#include "collate/outputs.h"

namespace atompack::collate {
namespace {

using physics::cross;
using physics::dot;
using physics::Matrix3;
using physics::unit;
using physics::Vector3;

// Rounding in fractional coordinates: atoms so little below a face of the cell stay where they are.
constexpr double kFaceTolerance = 1e-7;

constexpr Matrix3 kIdentity{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

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
    Vector3 along{};
    along[axis] = 1;
    cell[(known + 1) % 3] = unit(cross(vector, along));
  }
  for (size_t d = 0; d < 3; ++d) {
    if (!is_zero(cell[d])) continue;
    cell[d] = cross(cell[(d + 1) % 3], cell[(d + 2) % 3]);
    if (is_zero(cell[d])) return;
    cell[d] = unit(cell[d]);
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

// Writes float64 or int64 from item `first` of the output on.
template <typename T>
void store(std::span<const T> values, const plan::Output& output, std::byte* to, int64_t first) {
  constexpr DType kFrom = std::is_same_v<T, double> ? DType::float64 : DType::int64;
  static_assert(sizeof(T) == item_bytes(kFrom));
  copy_values(to + static_cast<size_t>(first) * item_bytes(output.dtype), output.dtype,
              reinterpret_cast<const std::byte*>(values.data()), kFrom, values.size());
}

Vector3 times_cell(const Vector3& cells, const Matrix3& cell) {
  Vector3 made;
  for (size_t axis = 0; axis < 3; ++axis) {
    made[axis] = cells[0] * cell[0][axis] + cells[1] * cell[1][axis] + cells[2] * cell[2][axis];
  }
  return made;
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
      store<double>({&volume, 1}, output, to, molecule);
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
      store<double>(made[row], output, to, 9 * molecule + 3 * static_cast<int64_t>(row));
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
      store<double>(made, output, to, 3 * atom);
    });
  }
}

void write_wrapped_positions(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const std::vector<Vector3> away = cells_away(part, molecule);
    const Matrix3 cell = cell_of(part.inputs, molecule);
    size_t number = 0;
    for_each_position(part.inputs, molecule, [&](int64_t atom, Vector3 position) {
      const Vector3 outside = times_cell(away[number++], cell);
      for (size_t axis = 0; axis < 3; ++axis) position[axis] -= outside[axis];
      store<double>(position, output, to, 3 * atom);
    });
  }
}

// Outputs that are made of neighbor lists.

namespace {

// Rows (edges, 3) of a molecule as doubles. Keeps its memory between molecules.
class Rows {
 public:
  // Reads the rows of some edges.
  std::span<Vector3> read(const Values& values, int64_t first, int64_t last) {
    rows_.resize(static_cast<size_t>(last - first));
    load(values, 3 * first, flat());
    return rows_;
  }

  std::span<double> flat() { return {rows_.empty() ? nullptr : rows_.front().data(), 3 * rows_.size()}; }

 private:
  std::vector<Vector3> rows_;
};

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

// Adds of_j - of_i to the rows of the edges of a molecule, from rows of its atoms.
void add_differences(const OutputInputs& inputs, int64_t molecule, int64_t first_edge,
                     std::span<const Vector3> of_atoms, std::span<Vector3> rows) {
  const int64_t first_atom = inputs.ptr[static_cast<size_t>(molecule)];
  const int64_t* const i = inputs.edge_index.data() + first_edge;
  const int64_t* const j = i + inputs.dims.edges;
  for (size_t edge = 0; edge < rows.size(); ++edge) {
    const Vector3& of_i = of_atoms[static_cast<size_t>(i[edge] - first_atom)];
    const Vector3& of_j = of_atoms[static_cast<size_t>(j[edge] - first_atom)];
    for (size_t axis = 0; axis < 3; ++axis) rows[edge][axis] += of_j[axis] - of_i[axis];
  }
}

void write_rows_of_edges(const plan::Output& output, const OutputPart& part, std::byte* to) {
  Rows rows, positions;
  const OutputInputs& inputs = part.inputs;
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const std::span<Vector3> made = rows.read(inputs.edge_shift, first, last);
    if (output.kind == plan::OutputKind::wrapped_shift) {
      // With w the numbers of cells that atoms are outside: S + w_j - w_i.
      add_differences(inputs, molecule, first, cells_away(part, molecule), made);
    } else {
      const Matrix3 cell = cell_of(inputs, molecule);
      for (Vector3& shift : made) shift = times_cell(shift, cell);
    }
    if (output.kind == plan::OutputKind::edge_vector) {
      const auto atom = static_cast<size_t>(molecule);
      const auto points = positions.read(inputs.positions, inputs.ptr[atom], inputs.ptr[atom + 1]);
      add_differences(inputs, molecule, first, points, made);
    }
    store<double>(rows.flat(), output, to, 3 * first);
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
    store<int64_t>(std::span(pairs).first(2 * n), output, to, 2 * first);
  }
}

void write_counts(const plan::Output& output, const OutputPart& part, std::byte* to) {
  for_each_molecule(part, [&](int64_t molecule, int64_t first, int64_t last) {
    const int64_t count = last - first;
    store<int64_t>({&count, 1}, output, to, molecule);
  });
}

}  // namespace

void write_edge_output(const plan::Output& output, const OutputPart& part, std::byte* to) {
  const OutputInputs& inputs = part.inputs;
  const auto n_edges = static_cast<size_t>(part.last_edge - part.first_edge);
  switch (output.kind) {
    case plan::OutputKind::edge_count:
      return write_counts(output, part, to);
    case plan::OutputKind::edge_pairs:
      return write_pairs(output, part, to);
    case plan::OutputKind::edge_reversed:
      for (const int64_t row : {0, 1}) {
        const int64_t* const from = inputs.edge_index.data() + (1 - row) * inputs.dims.edges + part.first_edge;
        store<int64_t>({from, n_edges}, output, to, row * inputs.dims.edges + part.first_edge);
      }
      return;
    case plan::OutputKind::edge_shift: {
      const auto first = 3 * static_cast<size_t>(part.first_edge);
      const std::byte* const from = inputs.edge_shift.data + first * item_bytes(inputs.edge_shift.dtype);
      return copy_values(to + first * item_bytes(output.dtype), output.dtype, from, inputs.edge_shift.dtype,
                         3 * n_edges);
    }
    default:
      return write_rows_of_edges(output, part, to);
  }
}

}  // namespace atompack::collate
