#include "bindings/inspect.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "atp/inspect.h"
#include "bindings/errors.h"
#include "bindings/path.h"
#include "collate/statistics.h"
#include "collate/verify.h"
#include "io/file.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using collate::Collator;
using collate::FieldHead;
using collate::Findings;
using collate::Moments;
using collate::NormalEquations;
using collate::Statistics;
using collate::StatisticsPass;
using collate::Verifier;

std::unique_ptr<StatisticsPass> start_statistics(std::shared_ptr<Collator> collator,
                                                 const std::optional<at::Tensor>& selection,
                                                 const StatisticsPass::References& references) {
  return std::make_unique<StatisticsPass>(std::move(collator), selection, references);
}

// (count, non-finite, mean, sum of squared distances from the mean, least, largest)
py::tuple moments_of(const Moments& moments) {
  return py::make_tuple(moments.count, moments.non_finite, moments.mean, moments.scatter, moments.low, moments.high);
}

py::tuple equations_of(const NormalEquations& equations) {
  return py::make_tuple(equations.gram(), equations.right(), equations.squares());
}

// [(scope, key, level, molecules that have it)]
py::list coverage_of(const StatisticsPass& pass) {
  const Statistics& found = pass.found();
  py::list all;
  const auto add = [&](const FieldHead& head) {
    const auto number = all.size();
    all.append(py::make_tuple(static_cast<int>(head.id.scope), head.id.key, name_of(head.level),
                              number < found.present.size() ? found.present[number] : 0));
  };
  for (const FieldHead& head : pass.collator().table()->fields()) add(head);
  for (const FieldHead& head : found.unlisted.fields()) add(head);
  return all;
}

py::dict statistics_of(const StatisticsPass& pass) {
  using namespace py::literals;
  const Statistics& found = pass.found();
  return py::dict("n_molecules"_a = found.n_molecules, "n_atoms"_a = found.n_atoms, "sizes"_a = found.sizes,
                  "atoms_of"_a = found.atoms_of, "molecules_of"_a = found.molecules_of,
                  "energy"_a = moments_of(found.energy), "energy_per_atom"_a = moments_of(found.energy_per_atom),
                  "forces"_a = moments_of(found.forces), "largest_force"_a = found.largest_force,
                  "equations"_a = equations_of(found.equations),
                  "equations_per_atom"_a = equations_of(found.equations_per_atom), "coverage"_a = coverage_of(pass));
}

// (number of faults, [(molecule, message)], decoded bytes, [(scope, key, molecules)] of non-finite values)
py::tuple take_findings(Verifier& verifier) {
  const Findings found = verifier.take();
  py::list faults;
  for (const auto& fault : found.faults) faults.append(py::make_tuple(fault.molecule, text_of(fault.message)));
  py::list non_finite;
  for (const auto& [field, molecules] : found.non_finite) {
    non_finite.append(py::make_tuple(static_cast<int>(field.scope), field.key, molecules));
  }
  return py::make_tuple(found.n_faults, faults, found.decoded_bytes, non_finite);
}

// Of slots A and B: (generation, molecules, None), or (None, None, what is wrong)
py::list slots_of(const Path& path) {
  py::list all;
  for (const atp::SlotState& slot : atp::describe_slots(path.bytes)) {
    if (slot.header) {
      all.append(py::make_tuple(slot.header->generation, slot.header->n_molecules, py::none()));
    } else {
      all.append(py::make_tuple(py::none(), py::none(), slot.problem));
    }
  }
  return all;
}

}  // namespace

void bind_inspect(py::module_& module) {
  py::class_<StatisticsPass>(module, "StatisticsPass")
      .def(py::init(&start_statistics), py::arg("collator"), py::arg("selection"), py::arg("references"))
      .def("__len__", &StatisticsPass::size)
      .def("advance", &StatisticsPass::advance, py::call_guard<py::gil_scoped_release>())
      .def("found", &statistics_of);
  py::class_<Verifier>(module, "Verifier")
      .def(py::init([](std::shared_ptr<MoleculeSource> source) { return Verifier(std::move(source)); }),
           py::arg("source"))
      .def("__len__", &Verifier::size)
      .def("advance", &Verifier::advance, py::call_guard<py::gil_scoped_release>())
      .def("take", &take_findings);
  py::class_<atp::SpaceUse>(module, "AtpSpaceUse")
      .def_static(
          "measure",
          [](const Path& path, const atp::Snapshot& snapshot) { return atp::measure_space(path.bytes, snapshot); },
          py::arg("path"), py::arg("snapshot"), py::call_guard<py::gil_scoped_release>())
      .def_readonly("schema_bytes", &atp::SpaceUse::schema_bytes)
      .def_readonly("index_bytes", &atp::SpaceUse::index_bytes)
      .def_readonly("n_atoms", &atp::SpaceUse::n_atoms)
      .def_readonly("stored_bytes", &atp::SpaceUse::stored_bytes)
      .def_readonly("decoded_bytes", &atp::SpaceUse::decoded_bytes)
      .def_readonly("record_area", &atp::SpaceUse::record_area)
      .def_property_readonly("dead_bytes", &atp::SpaceUse::dead_bytes);
  module.def("describe_slots", &slots_of, py::arg("path"));
  module.def("check_regular_file", [](const Path& path) { io::check_regular_file(path.bytes); }, py::arg("path"));
}

}  // namespace atompack::bindings
