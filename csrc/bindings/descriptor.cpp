#include "bindings/bindings.h"

#include "base/error.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "collate/tensor_checks.h"
#include "ops/features.h"
#include "physics/farthest_points.h"

namespace atompack::bindings {
namespace {

using ops::Featurizer;
using physics::FarthestPoints;

// (order, cutoff)
using PyBasis = std::pair<int, double>;

std::unique_ptr<Featurizer> make_featurizer(std::vector<std::string> species, std::vector<int64_t> atomic_numbers,
                                            const PyBasis& radial, const PyBasis& angular, double min_cutoff) {
  return std::make_unique<Featurizer>(physics::ChebyshevOptions{.species = std::move(species),
                                                                .rad_order = radial.first,
                                                                .rad_cutoff = radial.second,
                                                                .ang_order = angular.first,
                                                                .ang_cutoff = angular.second,
                                                                .min_cutoff = min_cutoff},
                                      std::move(atomic_numbers));
}

// positions, atomic_numbers, ptr, cell, periodic
using PyStructures = std::tuple<at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>, at::Tensor>;

// (features, derivatives)
std::pair<at::Tensor, std::vector<at::Tensor>> compute(const Featurizer& self, const PyStructures& structures,
                                                       bool derivatives, at::ScalarType dtype) {
  const auto& [positions, atomic_numbers, ptr, cell, periodic] = structures;
  const std::optional<at::Tensor> known = cell ? std::optional(periodic) : std::nullopt;
  ops::Features made =
      self.compute({positions, cell, known, ptr}, atomic_numbers, derivatives, collate::dtype_of(dtype));
  return {std::move(made.features), std::move(made.derivatives)};
}

// Keeps the points alive, float32 (points, columns).
struct HeldPoints {
  at::Tensor points;
  FarthestPoints choice;
};

std::unique_ptr<HeldPoints> hold_points(const at::Tensor& points, int64_t first) {
  if (points.dim() != 2 || points.size(1) == 0 || first < 0 || first >= points.size(0)) {
    throw InternalError("expected points and one of them");
  }
  collate::expect_tensor(points, "points", at::kFloat, points.sizes());
  const at::Tensor plain = collate::in_plain_memory(points);
  const std::span values(plain.const_data_ptr<float>(), static_cast<size_t>(plain.numel()));
  return std::make_unique<HeldPoints>(
      HeldPoints{plain, FarthestPoints(values, static_cast<size_t>(plain.size(1)), static_cast<size_t>(first))});
}

}  // namespace

void bind_descriptor(py::module_& module) {
  py::class_<Featurizer>(module, "Featurizer")
      .def(py::init(&make_featurizer), py::kw_only(), "species"_a, "atomic_numbers"_a, "radial"_a, "angular"_a,
           "min_cutoff"_a)
      .def_property_readonly("n_features", [](const Featurizer& self) { return self.descriptor().n_features(); })
      .def_property_readonly("typespin", [](const Featurizer& self) { return self.descriptor().typespin(); })
      .def("compute", unlocked(&compute), "structures"_a, "derivatives"_a, "dtype"_a);
  py::class_<HeldPoints>(module, "FarthestPoints")
      .def(py::init(unlocked(&hold_points)), "points"_a, "first"_a)
      .def("choose", unlocked([](HeldPoints& self, size_t n) { self.choice.choose(n); }), "n"_a)
      .def("chosen", [](const HeldPoints& self) { return self.choice.chosen(); });
}

}  // namespace atompack::bindings
