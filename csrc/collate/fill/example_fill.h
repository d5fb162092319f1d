// Values of examples into the memory of their batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "collate/batch.h"
#include "plan/examples/example_plan.h"

namespace atompack::collate {

// On `n_threads` threads.
void fill_examples(const ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads);

// Numbered as the examples.
Batch fill_molecules(MoleculesPlan& plan, const at::Tensor& arena, int64_t n_threads);

// Views of the arena, by leaf.
std::vector<at::Tensor> wrap_examples(const ExamplePlan& plan, const at::Tensor& arena);

}  // namespace atompack::collate
