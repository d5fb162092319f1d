// Conversion of a filled arena to a batch of tensors.
#pragma once

#include <vector>

#include "collate/batch.h"
#include "plan/batch_plan.h"

namespace atompack::collate {

// Makes the tensors of a batch as views of its arena.
Batch wrap(const BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings);

}  // namespace atompack::collate
