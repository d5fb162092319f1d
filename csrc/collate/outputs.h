// Tensors in the form that a trainer takes, made of the tensors of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"
#include "collate/arena.h"
#include "collate/batch.h"
#include "model/molecule_source.h"
#include "physics/neighbors/lattice.h"
#include "plan/batch_plan.h"
#include "plan/request.h"

namespace atompack::collate {

// Contiguous values in memory that others own.
struct Values {
  const std::byte* data = nullptr;  // null: there are none
  DType dtype = DType::float64;

  explicit operator bool() const { return data != nullptr; }
};

// A field that an output is made of.
struct FieldValues {
  Values values;
  const bool* mask = nullptr;  // (molecules,); null: all molecules have it
  Level level = Level::molecule;
  int64_t row_elements = 1;
};

// The tensors of a batch.
struct OutputInputs {
  plan::OutputDims dims;
  std::span<const int64_t> ptr, atomic_numbers;
  Values positions;
  Values cell;                          // (molecules, 3, 3)
  const bool* pbc = nullptr;            // (molecules, 3); null: no molecule is periodic
  std::span<const int64_t> edge_index;  // (2, edges), sorted by center
  Values edge_shift;
  std::vector<FieldValues> fields;  // of each output; empty values if no molecule has the field
};

// A range of molecules with its atoms and edges; `locate` adds the molecule in this row of the batch to an error.
struct OutputPart {
  int64_t first_molecule, last_molecule;
  int64_t first_edge, last_edge;
  const OutputInputs& inputs;
  const std::function<void(DataError&, int64_t row)>& locate;

  int64_t first_atom() const { return inputs.ptr[static_cast<size_t>(first_molecule)]; }
  int64_t last_atom() const { return inputs.ptr[static_cast<size_t>(last_molecule)]; }

  // Throws an error that is located at a molecule.
  template <typename Error>
  [[noreturn]] void fail(Error error, int64_t row) const {
    locate(error, row);
    throw error;
  }
};

// Writes an output for the molecules of a part. `to` is the whole output, of the shape that output_shape() returns.
void write_values(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to);
void write_constants(const plan::Output& output, const OutputPart& part, std::byte* to);
void write_weights(const plan::Output& output, const FieldValues& field, const OutputPart& part, std::byte* to);
void write_elements(const plan::Output& output, const OutputPart& part, std::byte* to);
void write_edge_output(const plan::Output& output, const OutputPart& part, std::byte* to);
void write_wrapped_positions(const plan::Output& output, const OutputPart& part, std::byte* to);
void write_fractional_positions(const plan::Output& output, const OutputPart& part, std::byte* to);
void write_cells(const plan::Output& output, const OutputPart& part, std::byte* to);

// Returns how many cell vectors each atom of a molecule is outside of its cell, along periodic directions: (atoms, 3).
// Throws FieldError for a singular cell.
std::vector<physics::Vector3> cells_away(const OutputPart& part, int64_t molecule);

// Reads `count` values as doubles, from element `first` on.
void load(const Values& values, int64_t first, std::span<double> to);

// The cell and the positions of a molecule.
physics::Matrix3 cell_of(const OutputInputs& inputs, int64_t molecule);
std::array<bool, 3> periodic_of(const OutputInputs& inputs, int64_t molecule);

// Writes all outputs but those without a place, with a thread for each range of molecules between two borders. Throws
// FieldError, located by `locate`, for elements that are not in the table, fractions where integers are expected, and
// singular cells.
void write_outputs(std::span<const plan::Output> outputs, const OutputInputs& inputs, std::span<const int64_t> borders,
                   std::span<std::byte* const> to, const std::function<void(DataError&, int64_t row)>& locate);

// Outputs of a batch: made with it, in its arena, or later from its tensors.

// Makes the outputs of a filled batch at their places in its arena. Throws as write_outputs() does, with file and
// molecule.
void add_outputs(const MoleculeSource& source, std::span<const plan::Output> outputs, const plan::BatchPlan& plan,
                 Batch& batch);

// Tensors of a batch that is not in an arena, or no longer.
struct BatchTensors {
  at::Tensor positions, atomic_numbers, ptr;
  std::optional<at::Tensor> cell, pbc, edge_index, edge_shift;
};

// A field of such a batch; without values if no molecule has it.
struct FieldTensor {
  Level level = Level::molecule;
  std::vector<int64_t> row_shape;
  std::optional<at::Tensor> values, mask;
};

// Makes outputs in an arena of their own; `fields` are those of each output, or nullopt. Throws as write_outputs()
// does, with the row of the molecule, and FieldError for tensors that do not belong together.
std::vector<at::Tensor> make_outputs(std::span<const plan::Output> outputs, const BatchTensors& tensors,
                                     std::span<const std::optional<FieldTensor>> fields);

}  // namespace atompack::collate
