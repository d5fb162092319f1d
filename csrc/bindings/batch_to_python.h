// Conversion of batches to Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include "collate/batcher.h"

namespace atompack::bindings {

// Returns, for molecules: (arena, table, values, masks, faults); values: positions, atomic_numbers, batch, ptr,
// n_atoms, index, then edges, then the fields of the table. For columns: (arena, [(values, offsets or None, mask)],
// names of the rows); values are a tensor, or a list of tensors or strings with None for missing rows. For examples:
// (arena, batch, None), or (None, [example], indices) if they cannot share a batch. `molecules` makes batches of
// molecules in examples from (arena, fields, values, masks).
pybind11::tuple batch_to_python(collate::AnyBatch batch, const pybind11::object& molecules = pybind11::none());

pybind11::tuple batch_to_python(collate::Batch batch);

// Returns (scope, key, level) of each field.
pybind11::list field_entries(const plan::FieldTable& table);

}  // namespace atompack::bindings
