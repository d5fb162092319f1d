// Comparison of a batch with the molecules of which it was made, value by value.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <variant>
#include <vector>

#include "collate/batch.h"
#include "model/fields.h"
#include "model/memory_source.h"

namespace atompack::test {

inline std::vector<double> doubles(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.to(at::kDouble).contiguous();
  return {plain.const_data_ptr<double>(), plain.const_data_ptr<double>() + plain.numel()};
}

inline void expect_same(const std::vector<double>& found, const std::vector<double>& expected,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool are_same = found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]));
    EXPECT_TRUE(are_same) << what << "[" << i << "]: " << found[i] << " instead of " << expected[i];
  }
}

inline int64_t rows_of(const MemoryMolecule& molecule, Level level) {
  const int64_t rows[] = {1, molecule.n_atoms(), molecule.n_edges, molecule.n_triplets};
  return rows[static_cast<size_t>(level)];
}

// What a field of the batch must hold: values of the molecules one after the other, `missing` for those without it.
inline std::vector<double> joined(const MemorySource& source, std::span<const int64_t> indices,
                                  const plan::FieldEntry& entry, int64_t row_elements, double missing) {
  std::vector<double> all;
  int64_t first_atom = 0;
  for (const int64_t index : indices) {
    const MemoryMolecule& molecule = source.molecule(index);
    const MemoryField* const field = molecule.find(entry.id.scope, entry.id.key);
    if (field == nullptr) {
      all.insert(all.end(), static_cast<size_t>(rows_of(molecule, entry.level) * row_elements), missing);
    } else {
      const double shift = field->type.is_atom_index ? static_cast<double>(first_atom) : 0;
      for (const double number : field->numbers) all.push_back(number + shift);
    }
    first_atom += molecule.n_atoms();
  }
  return all;
}

inline void expect_field(const collate::Batch& batch, size_t number, const MemorySource& source,
                         std::span<const int64_t> indices) {
  const plan::FieldEntry& entry = batch.table->fields()[number];
  const auto& value = batch.values[number];
  if (const auto* const tensor = std::get_if<at::Tensor>(&value)) {
    const int64_t n_rows = tensor->size(0);
    const bool has_nan = tensor->is_floating_point() && !is_geometry(entry.id.scope, entry.id.key);
    expect_same(doubles(*tensor),
                joined(source, indices, entry, n_rows == 0 ? 0 : tensor->numel() / n_rows, has_nan ? NAN : 0),
                entry.id.key);
    return;
  }
  for (size_t row = 0; row < indices.size(); ++row) {
    const MemoryField* const field = source.molecule(indices[row]).find(entry.id.scope, entry.id.key);
    if (const auto* const strings = std::get_if<collate::Strings>(&value)) {
      EXPECT_EQ((*strings)[row], field == nullptr ? std::nullopt : std::optional(field->text));
    } else {
      const std::optional<at::Tensor>& one = std::get<collate::TensorList>(value)[row];
      ASSERT_EQ(one.has_value(), field != nullptr);
      if (one) expect_same(doubles(*one), field->numbers, entry.id.key);
    }
  }
}

// `numbers`: those that the batch reports, where they are not the indices.
inline void expect_batch(const collate::Batch& batch, const MemorySource& source, std::span<const int64_t> indices,
                         std::span<const int64_t> numbers = {}) {
  std::vector<double> positions, atomic_numbers, molecules, ptr{0}, n_atoms, index;
  for (size_t row = 0; row < indices.size(); ++row) {
    const MemoryMolecule& molecule = source.molecule(indices[row]);
    positions.insert(positions.end(), molecule.positions.begin(), molecule.positions.end());
    atomic_numbers.insert(atomic_numbers.end(), molecule.numbers.begin(), molecule.numbers.end());
    molecules.insert(molecules.end(), molecule.numbers.size(), static_cast<double>(row));
    ptr.push_back(ptr.back() + static_cast<double>(molecule.n_atoms()));
    n_atoms.push_back(static_cast<double>(molecule.n_atoms()));
    index.push_back(static_cast<double>(numbers.empty() ? indices[row] : numbers[row]));
  }
  expect_same(doubles(batch.positions), positions, "positions");
  expect_same(doubles(batch.atomic_numbers), atomic_numbers, "atomic_numbers");
  expect_same(doubles(batch.batch), molecules, "batch");
  expect_same(doubles(batch.ptr), ptr, "ptr");
  expect_same(doubles(batch.n_atoms), n_atoms, "n_atoms");
  expect_same(doubles(batch.index), index, "index");
  const auto& fields = batch.table->fields();
  ASSERT_EQ(batch.values.size(), fields.size());
  ASSERT_EQ(batch.masks.sizes(), (std::vector<int64_t>{std::ssize(fields), std::ssize(indices)}));
  for (size_t number = 0; number < fields.size(); ++number) {
    expect_field(batch, number, source, indices);
    for (size_t row = 0; row < indices.size(); ++row) {
      const bool has = source.molecule(indices[row]).find(fields[number].id.scope, fields[number].id.key) != nullptr;
      EXPECT_EQ(batch.masks[static_cast<int64_t>(number)][static_cast<int64_t>(row)].item<bool>(), has);
    }
  }
}

}  // namespace atompack::test
