#include "bindings/bindings.h"

#include "bindings/plain_arrays.h"
#include "formats/atp/reader.h"
#include "io/direct_file.h"
#include "io/fetch/uring/uring_loop.h"
#include "model/sources/concat.h"
#include "model/sources/forwarding.h"
#include "model/sources/joined.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(atp::Header, generation, data_start, index_offset, index_length, n_molecules, codec, level,
               record_format, schema_offset, schema_length);

namespace {

using atp::Snapshot;

// By which a snapshot is pickled.
auto members_of(auto& snapshot) {
  return std::tuple_cat(Members<io::FileIdentity>::tie(snapshot.identity), Members<atp::Header>::tie(snapshot.header));
}
using SnapshotState = decltype(copy_of(members_of(std::declval<Snapshot&>())));

std::shared_ptr<atp::Reader> open_reader(const io::Location& path, const Snapshot& snapshot, io::Access access,
                                         bool populate) {
  return make_shared_handle<atp::Reader>(path, snapshot, atp::ReadOptions{access, populate});
}

template <typename Source>
std::shared_ptr<Source> source_of(const std::vector<std::shared_ptr<MoleculeSource>>& parts) {
  return make_shared_handle<Source>(std::vector<std::shared_ptr<const MoleculeSource>>(parts.begin(), parts.end()));
}

}  // namespace

void bind_atp(py::module_& module) {
  using Source = std::shared_ptr<MoleculeSource>;
  py::class_<Snapshot>(module, "AtpSnapshot")
      .def_static("take", unlocked(&atp::take_snapshot), "path"_a)
      .def_property_readonly("generation", [](const Snapshot& self) { return self.header.generation; })
      .def_property_readonly("n_molecules", [](const Snapshot& self) { return self.header.n_molecules; })
      .def_property_readonly("codec", [](const Snapshot& self) { return self.header.codec; })
      .def_property_readonly("level", [](const Snapshot& self) { return self.header.level; })
      .def_property_readonly("record_format", [](const Snapshot& self) { return self.header.record_format; })
      .def_property_readonly("file_bytes", [](const Snapshot& self) { return self.identity.size; })
      .def_property_readonly("committed_bytes", [](const Snapshot& self) { return self.header.committed_end(); })
      .def(py::pickle([](const Snapshot& self) -> SnapshotState { return members_of(self); },
                      [](const SnapshotState& state) {
                        Snapshot snapshot;
                        members_of(snapshot) = state;
                        return snapshot;
                      }));

  py::class_<MoleculeSource, std::shared_ptr<MoleculeSource>>(module, "MoleculeSource")
      .def("__len__", &MoleculeSource::size);
  py::class_<atp::Reader, MoleculeSource, std::shared_ptr<atp::Reader>>(module, "AtpReader")
      .def(py::init(unlocked(&open_reader)), "path"_a, "snapshot"_a, "access"_a, "populate"_a);
  py::class_<ConcatSource, MoleculeSource, std::shared_ptr<ConcatSource>>(module, "ConcatSource")
      .def(py::init(unlocked(&source_of<ConcatSource>)), "parts"_a);
  py::class_<MixtureSource, MoleculeSource, std::shared_ptr<MixtureSource>>(module, "MixtureSource")
      .def(py::init(unlocked(&source_of<MixtureSource>)), "parts"_a);
  py::class_<JoinedSource, MoleculeSource, std::shared_ptr<JoinedSource>>(module, "JoinedSource")
      .def(py::init(constructor<std::shared_ptr<JoinedSource>, Source, Source>()), "molecules"_a, "extra"_a);
  py::class_<ForceSubsetSource, MoleculeSource, std::shared_ptr<ForceSubsetSource>>(module, "ForceSubsetSource")
      .def(py::init(constructor<std::shared_ptr<ForceSubsetSource>, Source, std::vector<uint8_t>>()), "all"_a,
           "chosen"_a);
  py::class_<NanIsMissingSource, MoleculeSource, std::shared_ptr<NanIsMissingSource>>(module, "NanIsMissingSource")
      .def(py::init(constructor<std::shared_ptr<NanIsMissingSource>, Source>()), "all"_a);
  py::class_<RenamedSource, MoleculeSource, std::shared_ptr<RenamedSource>>(module, "RenamedSource")
      .def(py::init(constructor<std::shared_ptr<RenamedSource>, Source, RenamedSource::Names>()), "all"_a, "names"_a);
  module.def("is_uring_available", unlocked(&io::fetch::is_uring_available));
  // Pages of 4096 bytes that were read with access="direct", and the reads.
  module.def("direct_reads", [] {
    const io::fetch::PageCacheStats stats = io::direct_stats();
    return py::make_tuple(io::fetch::count_pages(stats.fetched_bytes), stats.requests);
  });
  module.def("read_atom_counts", unlocked(&atp::read_atom_counts), "path"_a, "snapshot"_a, "counts"_a);
}

}  // namespace atompack::bindings
