// Functions that fill the arena of a batch of examples.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "collate/batch.h"
#include "plan/example_plan.h"

namespace atompack::collate {

// Copies the values of all leaves, on `n_threads` threads.
void fill_examples(const ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads);

// Fills a batch of molecules, whose `index` contains the indices of the examples.
Batch fill_molecules(MoleculesPlan& plan, const at::Tensor& arena, int64_t n_threads);

// Returns a view of the arena for each leaf.
std::vector<at::Tensor> wrap_examples(const ExamplePlan& plan, const at::Tensor& arena);

}  // namespace atompack::collate
