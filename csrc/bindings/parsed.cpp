// Datasets whose molecules are parsed from text when they are read.

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "bindings/locked.h"
#include "bindings/plain_arrays.h"
#include "formats/extxyz/frame_index.h"
#include "formats/extxyz/frame_source.h"
#include "formats/lmdb/row_block.h"
#include "formats/lmdb/row_source.h"
#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(parsed::Target, level, key, scope, name, kind, shape, is_narrow, from_momenta);
ATOMPACK_TUPLE(parsed::SurveyedField, level, key, kind, shape, is_narrow);
ATOMPACK_TUPLE(parsed::FileStamp, bytes, seconds, nanoseconds);

namespace {

using parsed::FieldMap;
using parsed::Index;

using SharedIndex = std::shared_ptr<Index>;

io::FileVersion version_now(const Path& path) { return io::open_file(path.bytes)->version(); }

UniqueHandle<Locked<extxyz::FrameScanner>> start_frame_scan(const Path& path, const Path& name, unsigned n_threads) {
  return in_file(name.bytes, [&] { return make_unique_handle<Locked<extxyz::FrameScanner>>(path.bytes, n_threads); });
}

py::bytes encode_index_bytes(const Index& index) {
  return to_bytes(without_gil([&] { return parsed::encode_index(index); }));
}

SharedIndex decode_index_bytes(const py::buffer& buffer, const Path& name) {
  const py::buffer_info info = buffer.request();
  const Bytes bytes(static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize));
  return without_gil(
      [&] { return in_file(name.bytes, [&] { return make_shared_handle<Index>(parsed::decode_index(bytes)); }); });
}

bool is_index_of(const py::bytes& head, const parsed::FileStamp& file) {
  return parsed::is_index_of(bytes_in(head), file);
}

std::shared_ptr<FieldMap> make_fields(const std::vector<parsed::Target>& targets, bool has_cells,
                                      std::vector<double> masses, bool keeps_nan,
                                      const std::vector<std::pair<Level, std::string>>& ignored, bool is_exact) {
  auto fields = make_shared_handle<FieldMap>(targets, has_cells, std::move(masses), keeps_nan, is_exact);
  for (const auto& [level, key] : ignored) fields->ignore(level, key);
  return fields;
}

std::shared_ptr<extxyz::FrameSource> open_frame_source(const Path& path, const Path& name,
                                                       const io::FileVersion& version, SharedIndex index,
                                                       std::shared_ptr<FieldMap> fields, io::Access access,
                                                       bool populate, std::shared_ptr<extxyz::Remarks> remarks) {
  return make_shared_handle<extxyz::FrameSource>(path.bytes, name.bytes, version, std::move(index), std::move(fields),
                                                 extxyz::FrameOptions{access, populate, std::move(remarks)});
}

UniqueHandle<lmdb::PageFile> open_lmdb_file(const Path& path) {
  return make_unique_handle<lmdb::PageFile>(io::open_file(path.bytes), io::Access::read, false);
}

py::object value_at(const lmdb::PageFile& file, const py::bytes& key) {
  const auto value = without_gil([&, wanted = static_cast<std::string_view>(key)] { return file.value(wanted); });
  return value ? py::object(py::bytes(*value)) : py::none();
}

std::shared_ptr<lmdb::RowBlock> read_row_block(const lmdb::RowReader& reader, int64_t first, int64_t last,
                                               uint64_t max_bytes) {
  return {reader.read(first, last, max_bytes).release(), DeleteUnlocked()};
}

template <typename Scanner>
auto bind_scanner(py::module_& module, const char* name) {
  using Self = Locked<Scanner>;
  return py::class_<Self, UniqueHandle<Self>>(module, name)
      .def("advance", locked(&Scanner::advance))
      .def(
          "finish",
          [](Self& self, const Path& name, bool strict) {
            return make_shared_handle<Index>(
                self.use([&](Scanner& scanner) { return scanner.finish(name.bytes, strict); }));
          },
          "name"_a, "strict"_a)
      .def_property_readonly("bytes_read", locked(&Scanner::bytes_read))
      .def_property_readonly("file_bytes", locked(&Scanner::file_bytes));
}

}  // namespace

void bind_parsed(py::module_& module) {
  py::class_<parsed::Survey>(module, "Survey")
      .def_property_readonly("fields", [](const parsed::Survey& self) -> py::list { return py::cast(self.fields()); })
      .def_property_readonly("has_cells", &parsed::Survey::has_cells)
      .def_property_readonly("left_out", &parsed::Survey::left_out);
  py::class_<Index, SharedIndex> index(module, "ParsedIndex");
  index.attr("head_bytes") = parsed::kIndexHeadBytes;
  index.def_static("decode", &decode_index_bytes, "bytes"_a, "name"_a)
      .def_static("is_of", &is_index_of, "head"_a, "file"_a)
      .def("encode", &encode_index_bytes)
      .def("__len__", [](const Index& self) { return self.entries.size(); })
      .def_property_readonly("stamp", [](const Index& self) { return self.stamp; })
      .def_readonly("ends_open", &Index::ends_open)
      .def_readonly("survey", &Index::survey)
      .def("copy_counts", unlocked(&Index::copy_atom_counts), "counts"_a);
  py::class_<FieldMap, std::shared_ptr<FieldMap>>(module, "FieldMap")
      .def(py::init(unlocked(&make_fields)), "targets"_a, "has_cells"_a, "masses"_a, "keeps_nan"_a, "ignored"_a,
           "is_exact"_a = false);
  py::class_<extxyz::Remarks, std::shared_ptr<extxyz::Remarks>>(module, "ExtxyzRemarks")
      .def(py::init<>())
      .def("take", &extxyz::Remarks::take);
  py::class_<extxyz::FrameSource, MoleculeSource, std::shared_ptr<extxyz::FrameSource>>(module, "ExtxyzSource")
      .def(py::init(unlocked(&open_frame_source)), "path"_a, "name"_a, "version"_a, "index"_a, "fields"_a, "access"_a,
           "populate"_a, "remarks"_a = nullptr);
  bind_scanner<extxyz::FrameScanner>(module, "ExtxyzScanner")
      .def(py::init(unlocked(&start_frame_scan)), "path"_a, "name"_a, "n_threads"_a)
      .def(
          "check",
          [](Locked<extxyz::FrameScanner>& self, const Path& name, const Index& index) {
            self.use([&](const auto& scanner) { scanner.check(name.bytes, index.entries.size()); });
          },
          "name"_a, "index"_a);
  py::class_<lmdb::PageFile, UniqueHandle<lmdb::PageFile>>(module, "LmdbFile")
      .def(py::init(unlocked(&open_lmdb_file)), "path"_a)
      .def("get", &value_at, "key"_a)
      .def_property_readonly("entries", [](const lmdb::PageFile& self) { return self.header().entries; });
  bind_scanner<lmdb::RowScanner>(module, "LmdbRowScanner")
      .def(py::init(constructor<UniqueHandle<Locked<lmdb::RowScanner>>, Path, unsigned>()), "path"_a, "n_threads"_a);
  py::class_<lmdb::RowSource, MoleculeSource, std::shared_ptr<lmdb::RowSource>>(module, "LmdbRowSource")
      .def(py::init(constructor<std::shared_ptr<lmdb::RowSource>, io::Location, io::FileVersion, SharedIndex,
                                std::shared_ptr<FieldMap>, io::Access, bool>()),
           "path"_a, "version"_a, "index"_a, "fields"_a, "access"_a, "populate"_a);
  py::class_<lmdb::RowBlock, std::shared_ptr<lmdb::RowBlock>>(module, "LmdbRowBlock")
      .def_property_readonly("survey", &lmdb::RowBlock::survey)
      .def("count_arrays", &lmdb::RowBlock::count_arrays, "key"_a)
      .def("__len__", [](const lmdb::RowBlock& self) { return self.rows().size(); });
  py::class_<lmdb::RowBlockSource, MoleculeSource, std::shared_ptr<lmdb::RowBlockSource>>(module, "LmdbRowBlockSource")
      .def(py::init(constructor<std::shared_ptr<lmdb::RowBlockSource>, std::shared_ptr<lmdb::RowBlock>,
                                std::shared_ptr<FieldMap>>()),
           "block"_a, "fields"_a);
  py::class_<lmdb::RowReader, UniqueHandle<lmdb::RowReader>>(module, "LmdbRowReader")
      .def(py::init(constructor<UniqueHandle<lmdb::RowReader>, Path, unsigned>()), "path"_a, "n_threads"_a)
      .def("__len__", &lmdb::RowReader::size)
      .def("read", unlocked(&read_row_block), "first"_a, "last"_a, "max_bytes"_a);
  module.def("file_version", unlocked(&version_now), "path"_a);
}

}  // namespace atompack::bindings
