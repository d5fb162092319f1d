// Tensors over a filled arena.
#pragma once

#include <vector>

#include "collate/batch.h"
#include "collate/plan.h"

namespace atompack::collate {

Batch wrap(const BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings);

}  // namespace atompack::collate
