#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "formats/atp/reader.h"
#include "io/direct_file.h"
#include "io/fetch/uring/uring_loop.h"
#include "model/sources/concat.h"
#include "model/sources/forwarding.h"
#include "model/sources/joined.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using atp::Header;
using atp::Snapshot;

py::tuple snapshot_state(const Snapshot& snapshot) {
  const Header& header = snapshot.header;
  const io::FileIdentity& identity = snapshot.identity;
  return py::make_tuple(identity.device, identity.inode, identity.size, header.generation, header.data_start,
                        header.index_offset, header.index_length, header.n_molecules, static_cast<int>(header.codec),
                        header.level, header.record_format, header.schema_offset, header.schema_length);
}

Snapshot restore_snapshot(const py::tuple& state) {
  const auto number = [&](size_t i) { return state[i].cast<uint64_t>(); };
  Snapshot snapshot;
  snapshot.identity = {number(0), number(1), number(2)};
  snapshot.header = {number(3),
                     number(4),
                     number(5),
                     number(6),
                     number(7),
                     static_cast<codec::Codec>(number(8)),
                     state[9].cast<int32_t>(),
                     state[10].cast<uint32_t>(),
                     number(11),
                     number(12)};
  return snapshot;
}

using SharedStore = std::shared_ptr<io::Store>;

Snapshot take_snapshot(const Path& path, const SharedStore& store) { return atp::take_snapshot({path.bytes, store}); }

std::shared_ptr<atp::Reader> open_reader(const Path& path, const Snapshot& snapshot, io::Access access, bool populate,
                                         const SharedStore& store) {
  return make_shared_handle<atp::Reader>(io::Location(path.bytes, store), snapshot, atp::ReadOptions{access, populate});
}

template <typename Source>
std::shared_ptr<Source> source_of(const std::vector<std::shared_ptr<MoleculeSource>>& parts) {
  return make_shared_handle<Source>(std::vector<std::shared_ptr<const MoleculeSource>>(parts.begin(), parts.end()));
}

std::shared_ptr<JoinedSource> join_sources(std::shared_ptr<MoleculeSource> molecules,
                                           std::shared_ptr<MoleculeSource> extra) {
  return make_shared_handle<JoinedSource>(std::move(molecules), std::move(extra));
}

std::shared_ptr<ForceSubsetSource> choose_forces(std::shared_ptr<MoleculeSource> all, std::vector<uint8_t> chosen) {
  return make_shared_handle<ForceSubsetSource>(std::move(all), std::move(chosen));
}

std::shared_ptr<NanIsMissingSource> hide_nan_labels(std::shared_ptr<MoleculeSource> all) {
  return make_shared_handle<NanIsMissingSource>(std::move(all));
}

std::shared_ptr<RenamedSource> rename_fields(std::shared_ptr<MoleculeSource> all, const RenamedSource::Names& names) {
  return make_shared_handle<RenamedSource>(std::move(all), names);
}

// Writes to memory of the caller; `address` points to snapshot.n_molecules int64.
void read_atom_counts_to(const Path& path, const Snapshot& snapshot, uintptr_t address, const SharedStore& store) {
  atp::read_atom_counts({path.bytes, store}, snapshot,
                        {reinterpret_cast<int64_t*>(address), snapshot.header.n_molecules});
}

}  // namespace

void bind_atp(py::module_& module) {
  py::class_<Snapshot>(module, "AtpSnapshot")
      .def_static("take", unlocked(&take_snapshot), py::arg("path"), py::arg("store") = py::none())
      .def_property_readonly("generation", [](const Snapshot& self) { return self.header.generation; })
      .def_property_readonly("n_molecules", [](const Snapshot& self) { return self.header.n_molecules; })
      .def_property_readonly("codec", [](const Snapshot& self) { return self.header.codec; })
      .def_property_readonly("level", [](const Snapshot& self) { return self.header.level; })
      .def_property_readonly("record_format", [](const Snapshot& self) { return self.header.record_format; })
      .def_property_readonly("file_bytes", [](const Snapshot& self) { return self.identity.size; })
      .def_property_readonly("committed_bytes", [](const Snapshot& self) { return self.header.committed_end(); })
      .def(py::pickle(&snapshot_state, &restore_snapshot));

  py::class_<MoleculeSource, std::shared_ptr<MoleculeSource>>(module, "MoleculeSource")
      .def("__len__", &MoleculeSource::size);
  py::class_<atp::Reader, MoleculeSource, std::shared_ptr<atp::Reader>>(module, "AtpReader")
      .def(py::init(unlocked(&open_reader)), py::arg("path"), py::arg("snapshot"), py::arg("access"),
           py::arg("populate"), py::arg("store") = py::none());
  py::class_<ConcatSource, MoleculeSource, std::shared_ptr<ConcatSource>>(module, "ConcatSource")
      .def(py::init(unlocked(&source_of<ConcatSource>)), py::arg("parts"));
  py::class_<MixtureSource, MoleculeSource, std::shared_ptr<MixtureSource>>(module, "MixtureSource")
      .def(py::init(unlocked(&source_of<MixtureSource>)), py::arg("parts"));
  py::class_<JoinedSource, MoleculeSource, std::shared_ptr<JoinedSource>>(module, "JoinedSource")
      .def(py::init(unlocked(&join_sources)), py::arg("molecules"), py::arg("extra"));
  py::class_<ForceSubsetSource, MoleculeSource, std::shared_ptr<ForceSubsetSource>>(module, "ForceSubsetSource")
      .def(py::init(unlocked(&choose_forces)), py::arg("all"), py::arg("chosen"));
  py::class_<NanIsMissingSource, MoleculeSource, std::shared_ptr<NanIsMissingSource>>(module, "NanIsMissingSource")
      .def(py::init(unlocked(&hide_nan_labels)), py::arg("all"));
  py::class_<RenamedSource, MoleculeSource, std::shared_ptr<RenamedSource>>(module, "RenamedSource")
      .def(py::init(unlocked(&rename_fields)), py::arg("all"), py::arg("names"));
  module.def("is_uring_available", unlocked(&io::fetch::is_uring_available));
  // Pages of 4096 bytes that were read with access="direct", and the reads.
  module.def("direct_reads", [] {
    const io::fetch::PageCacheStats stats = io::direct_stats();
    return py::make_tuple(io::fetch::count_pages(stats.fetched_bytes), stats.requests);
  });
  module.def("read_atom_counts", unlocked(&read_atom_counts_to), py::arg("path"), py::arg("snapshot"),
             py::arg("address"), py::arg("store") = py::none());
}

}  // namespace atompack::bindings
