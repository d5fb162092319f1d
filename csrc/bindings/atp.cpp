#include "bindings/bindings.h"

#include "bindings/plain_arrays.h"
#include "formats/atp/reader.h"
#include "io/direct_file.h"
#include "io/fetch/uring/uring_loop.h"
#include "model/sources/concat.h"
#include "model/sources/forwarding.h"
#include "model/sources/joined.h"

namespace atompack::bindings {
namespace {

using atp::Snapshot;

// By which a snapshot is pickled.
auto members_of(auto& snapshot) {
  auto& [identity, header] = snapshot;
  return std::tie(identity.device, identity.inode, identity.size, header.generation, header.data_start,
                  header.index_offset, header.index_length, header.n_molecules, header.codec, header.level,
                  header.record_format, header.schema_offset, header.schema_length);
}
using SnapshotState = decltype(copy_of(members_of(std::declval<Snapshot&>())));

SnapshotState state_of(const Snapshot& snapshot) { return members_of(snapshot); }

Snapshot restore_snapshot(const SnapshotState& state) {
  Snapshot snapshot;
  members_of(snapshot) = state;
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

void read_atom_counts_to(const Path& path, const Snapshot& snapshot, py::array& counts, const SharedStore& store) {
  const std::span<int64_t> out = mutable_span_of<int64_t>(counts);
  without_gil([&] { atp::read_atom_counts({path.bytes, store}, snapshot, out); });
}

}  // namespace

void bind_atp(py::module_& module) {
  using Source = std::shared_ptr<MoleculeSource>;
  py::class_<Snapshot>(module, "AtpSnapshot")
      .def_static("take", unlocked(&take_snapshot), py::arg("path"), py::arg("store") = py::none())
      .def_property_readonly("generation", [](const Snapshot& self) { return self.header.generation; })
      .def_property_readonly("n_molecules", [](const Snapshot& self) { return self.header.n_molecules; })
      .def_property_readonly("codec", [](const Snapshot& self) { return self.header.codec; })
      .def_property_readonly("level", [](const Snapshot& self) { return self.header.level; })
      .def_property_readonly("record_format", [](const Snapshot& self) { return self.header.record_format; })
      .def_property_readonly("file_bytes", [](const Snapshot& self) { return self.identity.size; })
      .def_property_readonly("committed_bytes", [](const Snapshot& self) { return self.header.committed_end(); })
      .def(py::pickle(&state_of, &restore_snapshot));

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
      .def(py::init(constructor<std::shared_ptr<JoinedSource>, Source, Source>()), py::arg("molecules"),
           py::arg("extra"));
  py::class_<ForceSubsetSource, MoleculeSource, std::shared_ptr<ForceSubsetSource>>(module, "ForceSubsetSource")
      .def(py::init(constructor<std::shared_ptr<ForceSubsetSource>, Source, std::vector<uint8_t>>()), py::arg("all"),
           py::arg("chosen"));
  py::class_<NanIsMissingSource, MoleculeSource, std::shared_ptr<NanIsMissingSource>>(module, "NanIsMissingSource")
      .def(py::init(constructor<std::shared_ptr<NanIsMissingSource>, Source>()), py::arg("all"));
  py::class_<RenamedSource, MoleculeSource, std::shared_ptr<RenamedSource>>(module, "RenamedSource")
      .def(py::init(constructor<std::shared_ptr<RenamedSource>, Source, RenamedSource::Names>()), py::arg("all"),
           py::arg("names"));
  module.def("is_uring_available", unlocked(&io::fetch::is_uring_available));
  // Pages of 4096 bytes that were read with access="direct", and the reads.
  module.def("direct_reads", [] {
    const io::fetch::PageCacheStats stats = io::direct_stats();
    return py::make_tuple(io::fetch::count_pages(stats.fetched_bytes), stats.requests);
  });
  module.def("read_atom_counts", &read_atom_counts_to, py::arg("path"), py::arg("snapshot"), py::arg("counts"),
             py::arg("store") = py::none());
}

}  // namespace atompack::bindings
