// Finished batches as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include "collate/batcher.h"

namespace atompack::bindings {

// Molecules: (arena, table, values, masks, faults); values: positions, atomic_numbers, batch, ptr, n_atoms, index, then
// edges, then the fields of the table.
// Columns: (arena, [(values, offsets or None, mask)], names of the rows); values are a tensor, or a list of tensors or
// strings with None for missing rows.
// Examples: (arena, batch, None); where they are not alike, (None, [example], numbers). `molecules` makes the batch of
// what is handed over for molecules in examples.
pybind11::tuple hand_over(collate::AnyBatch batch, const pybind11::object& molecules = pybind11::none());

pybind11::tuple hand_over(collate::Batch batch);

}  // namespace atompack::bindings
