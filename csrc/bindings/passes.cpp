#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "bindings/errors.h"
#include "bindings/locked.h"
#include "formats/atp/inspect.h"
#include "io/file.h"
#include "passes/statistics.h"
#include "passes/verify.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(passes::Moments, count, non_finite, mean, scatter, low, high);

namespace {

using passes::Findings;
using passes::Moments;
using passes::NormalEquations;
using passes::Selection;
using passes::Statistics;
using passes::StatisticsPass;
using passes::Verifier;
using plan::FieldEntry;
using plan::Request;

using LockedStatistics = Locked<StatisticsPass>;
using LockedVerifier = Locked<Verifier>;

using PySelection = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

// Keeps the array alive until the pass ends, which may be on any thread.
std::optional<Selection> selection_of(const std::optional<PySelection>& numbers) {
  if (!numbers) return std::nullopt;
  const auto drop = [](PySelection* array) {
    const AcquiredGil acquired;
    delete array;
  };
  const std::shared_ptr<PySelection> owner(new PySelection(*numbers), drop);
  return Selection{{owner->data(), static_cast<size_t>(owner->size())}, owner};
}

UniqueHandle<LockedStatistics> start_statistics(std::shared_ptr<MoleculeSource> source,
                                                std::shared_ptr<Request> request,
                                                const std::optional<PySelection>& selection,
                                                const StatisticsPass::References& references,
                                                std::optional<double> cutoff, int n_threads, bool features) {
  return make_unique_handle<LockedStatistics>(std::move(source), std::move(request), selection_of(selection),
                                              references, cutoff, features, n_threads);
}

py::tuple equations_of(const NormalEquations& equations) {
  constexpr auto kSize = static_cast<py::ssize_t>(passes::kElements);
  const std::vector<double> gram = equations.gram();
  return py::make_tuple(py::array_t<double>({kSize, kSize}, gram.data()),
                        py::array_t<double>({kSize}, equations.right().data()), equations.squares());
}

// {atomic number: moments}, of elements that have any
py::dict isolated_atoms_of(const Statistics& found) {
  py::dict all;
  for (size_t element = 0; element < found.isolated_atoms.size(); ++element) {
    const Moments& energies = found.isolated_atoms[element];
    if (energies.count + energies.non_finite > 0) all[py::int_(element)] = energies;
  }
  return all;
}

// [(scope, key, level, number of molecules with the field)]
py::list coverage_of(const StatisticsPass& pass) {
  const Statistics& found = pass.found();
  py::list all;
  const auto add = [&](const FieldEntry& entry) {
    const auto number = all.size();
    all.append(py::make_tuple(entry.id.scope, entry.id.key, entry.level,
                              number < found.present.size() ? found.present[number] : 0));
  };
  for (const FieldEntry& entry : pass.fields().table()->fields()) add(entry);
  for (const FieldEntry& entry : found.unlisted.fields()) add(entry);
  return all;
}

py::dict statistics_of(const StatisticsPass& pass) {
  const Statistics& found = pass.found();
  return py::dict("n_molecules"_a = found.n_molecules, "n_atoms"_a = found.n_atoms, "sizes"_a = found.sizes,
                  "atoms_of"_a = found.atoms_of, "molecules_of"_a = found.molecules_of, "energy"_a = found.energy,
                  "energy_per_atom"_a = found.energy_per_atom, "forces"_a = found.forces, "features"_a = found.features,
                  "largest_force"_a = found.largest_force, "largest_force_at"_a = found.largest_force_at,
                  "force_squares"_a = found.force_squares, "force_components"_a = found.force_components,
                  "isolated_atoms"_a = isolated_atoms_of(found), "n_pairs"_a = found.n_pairs,
                  "equations"_a = equations_of(found.equations),
                  "equations_per_atom"_a = equations_of(found.equations_per_atom), "coverage"_a = coverage_of(pass));
}

// (number of faults, [(molecule, message)], decoded bytes, [(scope, key, molecules)] of non-finite values)
py::tuple take_findings(LockedVerifier& verifier) {
  const Findings found = verifier.use([](Verifier& v) { return v.take(); });
  py::list faults;
  for (const auto& fault : found.faults) faults.append(py::make_tuple(fault.molecule, str_from_bytes(fault.message)));
  py::list non_finite;
  for (const auto& [field, molecules] : found.non_finite) {
    non_finite.append(py::make_tuple(static_cast<int>(field.scope), field.key, molecules));
  }
  return py::make_tuple(found.n_faults, faults, found.decoded_bytes, non_finite);
}

// For slots A and B: (generation, number of molecules, None), or (None, None, problem)
py::list slots_of(const io::Location& path) {
  py::list all;
  for (const atp::SlotState& slot : without_gil([&] { return atp::describe_slots(path); })) {
    if (slot.header) {
      all.append(py::make_tuple(slot.header->generation, slot.header->n_molecules, py::none()));
    } else {
      all.append(py::make_tuple(py::none(), py::none(), slot.problem));
    }
  }
  return all;
}

py::dict space_of(const io::Location& path, const atp::Snapshot& snapshot) {
  const atp::SpaceUse use = without_gil([&] { return atp::measure_space(path, snapshot); });
  return py::dict("schema_bytes"_a = use.schema_bytes, "index_bytes"_a = use.index_bytes, "n_atoms"_a = use.n_atoms,
                  "stored_bytes"_a = use.stored_bytes, "decoded_bytes"_a = use.decoded_bytes,
                  "record_area"_a = use.record_area, "dead_bytes"_a = use.dead_bytes());
}

}  // namespace

void bind_passes(py::module_& module) {
  py::class_<LockedStatistics, UniqueHandle<LockedStatistics>>(module, "StatisticsPass")
      .def(py::init(&start_statistics), "source"_a, "request"_a, "selection"_a, "references"_a, "cutoff"_a,
           "n_threads"_a, "features"_a = false)
      .def("__len__", locked(&StatisticsPass::size))
      .def("advance", locked(&StatisticsPass::advance))
      .def("found", [](const LockedStatistics& self) { return self.read(&statistics_of); });
  py::class_<LockedVerifier, UniqueHandle<LockedVerifier>>(module, "Verifier")
      .def(py::init(constructor<UniqueHandle<LockedVerifier>, std::shared_ptr<MoleculeSource>, int>()), "source"_a,
           "n_threads"_a)
      .def("__len__", locked(&Verifier::size))
      .def("advance", locked(&Verifier::advance))
      .def("take", &take_findings);
  module.def("measure_space", &space_of, "path"_a, "snapshot"_a);
  module.def("describe_slots", &slots_of, "path"_a);
  module.def("check_regular_file", [](const Path& path) { io::check_regular_file(path.bytes); }, "path"_a);
}

}  // namespace atompack::bindings
