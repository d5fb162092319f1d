#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include "bindings/tensor_caster.h"
#include "bindings/unlocked.h"
#include "collate/arena/arena.h"
#include "ops/contraction.h"
#include "ops/features.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using collate::DerivativeTensors;
using collate::Featurizer;

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
  collate::Features made =
      self.compute({positions, atomic_numbers, ptr, cell, periodic}, derivatives, collate::dtype_of(dtype));
  return {std::move(made.features), std::move(made.derivatives)};
}

// radial center, neighbor, gradients, spins or None; angular center, j, k, gradients of i, j, k, spins or None
using PyRows = std::vector<std::optional<at::Tensor>>;

DerivativeTensors rows_of(const PyRows& rows) {
  const auto at = [&](size_t place) { return rows.at(place).value(); };
  return {.radial_center = at(0),
          .radial_neighbor = at(1),
          .radial_grads = at(2),
          .radial_spin = rows.at(3),
          .angular_center = at(4),
          .angular_j = at(5),
          .angular_k = at(6),
          .grads_i = at(7),
          .grads_j = at(8),
          .grads_k = at(9),
          .angular_spin = rows.at(10)};
}

}  // namespace

void bind_descriptor(py::module_& module) {
  py::class_<Featurizer>(module, "Featurizer")
      .def(py::init(&make_featurizer), py::kw_only(), py::arg("species"), py::arg("atomic_numbers"), py::arg("radial"),
           py::arg("angular"), py::arg("min_cutoff"))
      .def_property_readonly("n_features", [](const Featurizer& self) { return self.descriptor().n_features(); })
      .def_property_readonly("typespin", [](const Featurizer& self) { return self.descriptor().typespin(); })
      .def("compute", unlocked(&compute), py::arg("structures"), py::arg("derivatives"), py::arg("dtype"));
  module.def("contract", unlocked([](const at::Tensor& weights, const PyRows& rows, const at::Tensor& ptr) {
               return collate::contract(weights, rows_of(rows), ptr);
             }),
             py::arg("weights"), py::arg("rows"), py::arg("ptr"));
  module.def("contract_transposed", unlocked([](const at::Tensor& forces, const PyRows& rows, const at::Tensor& ptr) {
               return collate::contract_transposed(forces, rows_of(rows), ptr);
             }),
             py::arg("forces"), py::arg("rows"), py::arg("ptr"));
}

}  // namespace atompack::bindings
