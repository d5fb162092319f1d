// Tensors over a filled arena.
#pragma once

#include <vector>

#include "collate/batch.h"
#include "plan/molecules/batch_plan.h"

namespace atompack::collate {

Batch wrap(const BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings);

}  // namespace atompack::collate
