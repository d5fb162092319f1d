// Registers the features of Chebyshev descriptors with torch, and their products with vectors from both sides.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collate/arena/arena.h"
#include "collate/tensor_checks.h"
#include "ops/contraction.h"
#include "ops/errors_of_torch.h"
#include "ops/features.h"

namespace atompack::collate {
namespace {

// Structures and settings, in the order of the schema.
#define ATOMPACK_DESCRIBED                                                                                \
  const at::Tensor &positions, const at::Tensor &atomic_numbers, const at::Tensor &ptr,                   \
      const std::optional<at::Tensor>&cell, const std::optional<at::Tensor>&pbc, at::IntArrayRef species, \
      int64_t rad_order, double rad_cutoff, int64_t ang_order, double ang_cutoff, double min_cutoff

#define ATOMPACK_PASSED \
  positions, atomic_numbers, ptr, cell, pbc, species, rad_order, rad_cutoff, ang_order, ang_cutoff, min_cutoff

constexpr int64_t kMaxOrder = 1000;

int order_of(const char* name, int64_t order) {
  if (order < 0 || order > kMaxOrder) throw FieldError(cat(name, ": expected 0 to ", kMaxOrder, ", got ", order));
  return static_cast<int>(order);
}

Featurizer featurizer_of(at::IntArrayRef species, int64_t rad_order, double rad_cutoff, int64_t ang_order,
                         double ang_cutoff, double min_cutoff) {
  std::vector<std::string> labels;
  for (const int64_t number : species) labels.push_back(cat("number ", number));
  return {physics::ChebyshevOptions{.species = std::move(labels),
                                    .rad_order = order_of("rad_order", rad_order),
                                    .rad_cutoff = rad_cutoff,
                                    .ang_order = order_of("ang_order", ang_order),
                                    .ang_cutoff = ang_cutoff,
                                    .min_cutoff = min_cutoff},
          species.vec()};
}

Structures structures_of(const at::Tensor& positions, const at::Tensor& atomic_numbers, const at::Tensor& ptr,
                         const std::optional<at::Tensor>& cell, const std::optional<at::Tensor>& pbc) {
  const auto type = positions.scalar_type();
  if (type != at::kFloat && type != at::kDouble) {
    throw FieldError(cat("positions: expected Float or Double, got ", c10::toString(type))).at_field("positions");
  }
  if (pbc && !cell) throw FieldError("pbc: expected a cell too").at_field("pbc");
  const int64_t n = std::max<int64_t>(ptr.numel() - 1, 0);
  Structures all{.positions = in_plain_memory(positions).to(at::kDouble),
                 .atomic_numbers = in_plain_memory(atomic_numbers),
                 .ptr = ptr.contiguous(),
                 .cell = std::nullopt,
                 .periodic = pbc ? in_plain_memory(*pbc)
                                 : at::full({n, 3}, cell.has_value(), positions.options().dtype(at::kBool))};
  if (cell) all.cell = in_plain_memory(*cell).to(at::kDouble);
  return all;
}

Features computed(bool derivatives, ATOMPACK_DESCRIBED) {
  const Featurizer featurizer = featurizer_of(species, rad_order, rad_cutoff, ang_order, ang_cutoff, min_cutoff);
  return featurizer.compute(structures_of(positions, atomic_numbers, ptr, cell, pbc), derivatives,
                            dtype_of(positions.scalar_type()));
}

// The columns of the derivatives that were made; none of spins for one species.
DerivativeTensors columns_of(const std::vector<at::Tensor>& made) {
  if (made.size() == 9) {
    return {made[0], made[1], made[2], std::nullopt, made[3],     made[4],
            made[5], made[6], made[7], made[8],      std::nullopt};
  }
  return {made[0], made[1], made[2], made[3], made[4], made[5], made[6], made[7], made[8], made[9], made[10]};
}

at::Tensor features_on_cpu(ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] { return computed(false, ATOMPACK_PASSED).features; });
}

// Forces are the negative gradient.
at::Tensor gradient_on_cpu(const at::Tensor& weights, ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] {
    const Features made = computed(true, ATOMPACK_PASSED);
    return contract(weights, columns_of(made.derivatives), ptr.contiguous()).neg_();
  });
}

at::Tensor changes_on_cpu(const at::Tensor& directions, ATOMPACK_DESCRIBED) {
  return with_errors_of_torch([&] {
    const Features made = computed(true, ATOMPACK_PASSED);
    return contract_transposed(directions, columns_of(made.derivatives), ptr.contiguous()).neg_();
  });
}

int64_t n_features_of(at::IntArrayRef species, int64_t rad_order, int64_t ang_order) {
  return (rad_order + ang_order + 2) * (species.size() > 1 ? 2 : 1);
}

at::Tensor features_sizes(ATOMPACK_DESCRIBED) {
  return positions.new_empty_symint({positions.sym_size(0), n_features_of(species, rad_order, ang_order)});
}

at::Tensor gradient_sizes(const at::Tensor& weights, ATOMPACK_DESCRIBED) {
  return positions.new_empty_symint({positions.sym_size(0), 3});
}

at::Tensor changes_sizes(const at::Tensor& directions, ATOMPACK_DESCRIBED) { return features_sizes(ATOMPACK_PASSED); }

}  // namespace
}  // namespace atompack::collate

TORCH_LIBRARY_FRAGMENT(atompack_torch, library) {
  const std::string described =
      "Tensor positions, Tensor atomic_numbers, Tensor ptr, Tensor? cell, Tensor? pbc, int[] species, int rad_order, "
      "float rad_cutoff, int ang_order, float ang_cutoff, float min_cutoff) -> Tensor";
  library.def(("chebyshev_features(" + described).c_str());
  library.def(("chebyshev_gradient(Tensor weights, " + described).c_str());
  library.def(("chebyshev_changes(Tensor directions, " + described).c_str());
}

TORCH_LIBRARY_IMPL(atompack_torch, CPU, library) {
  library.impl("chebyshev_features", atompack::collate::features_on_cpu);
  library.impl("chebyshev_gradient", atompack::collate::gradient_on_cpu);
  library.impl("chebyshev_changes", atompack::collate::changes_on_cpu);
}

TORCH_LIBRARY_IMPL(atompack_torch, Meta, library) {
  library.impl("chebyshev_features", atompack::collate::features_sizes);
  library.impl("chebyshev_gradient", atompack::collate::gradient_sizes);
  library.impl("chebyshev_changes", atompack::collate::changes_sizes);
}
