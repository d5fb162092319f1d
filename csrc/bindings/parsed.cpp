// Datasets whose molecules are parsed from text when they are read.

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "bindings/locked.h"
#include "bindings/plain_arrays.h"
#include "formats/extxyz/frame_index.h"
#include "formats/extxyz/frame_source.h"
#include "formats/lmdb/row_block.h"
#include "formats/lmdb/row_index.h"
#include "formats/lmdb/row_source.h"
#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"

namespace atompack::bindings {

template <>
struct Members<parsed::Target> {
  static auto tie(auto& target) {
    return std::tie(target.level, target.key, target.scope, target.name, target.kind, target.shape, target.is_narrow,
                    target.from_momenta);
  }
};
template <>
struct Members<parsed::FileStamp> {
  static auto tie(auto& stamp) { return std::tie(stamp.bytes, stamp.seconds, stamp.nanoseconds); }
};

namespace {

using parsed::FieldMap;
using parsed::Index;

using SharedIndex = std::shared_ptr<Index>;

io::FileVersion version_now(const Path& path) { return io::open_file(path.bytes)->version(); }

UniqueHandle<Locked<extxyz::FrameScanner>> start_frame_scan(const Path& path, const Path& name, unsigned n_threads) {
  return in_file(name.bytes, [&] { return make_unique_handle<Locked<extxyz::FrameScanner>>(path.bytes, n_threads); });
}

UniqueHandle<Locked<lmdb::RowScanner>> start_row_scan(const Path& path, unsigned n_threads) {
  return make_unique_handle<Locked<lmdb::RowScanner>>(path.bytes, n_threads);
}

py::list fields_of(const parsed::Survey& survey) {
  py::list fields;
  for (const parsed::SurveyedField& field : survey.fields()) {
    const py::object shape = field.shape ? py::object(py::tuple(py::cast(*field.shape))) : py::none();
    fields.append(py::make_tuple(field.level, field.key, field.kind, shape, field.is_narrow));
  }
  return fields;
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

void copy_counts(const Index& index, py::array& counts) {
  const std::span<int64_t> out = mutable_span_of<int64_t>(counts);
  without_gil([&] { index.copy_atom_counts(out); });
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

std::shared_ptr<lmdb::RowSource> open_row_source(const Path& path, const io::FileVersion& version, SharedIndex index,
                                                 std::shared_ptr<FieldMap> fields, io::Access access, bool populate) {
  return make_shared_handle<lmdb::RowSource>(path.bytes, version, std::move(index), std::move(fields), access,
                                             populate);
}

UniqueHandle<lmdb::PageFile> open_lmdb_file(const Path& path) {
  return make_unique_handle<lmdb::PageFile>(io::open_file(path.bytes), io::Access::read, false);
}

py::object value_at(const lmdb::PageFile& file, const py::bytes& key) {
  const auto value = without_gil([&, wanted = static_cast<std::string_view>(key)] { return file.value(wanted); });
  return value ? py::object(py::bytes(*value)) : py::none();
}

UniqueHandle<lmdb::RowReader> open_row_reader(const Path& path, unsigned n_threads) {
  return make_unique_handle<lmdb::RowReader>(path.bytes, n_threads);
}

std::shared_ptr<lmdb::RowBlock> read_row_block(const lmdb::RowReader& reader, int64_t first, int64_t last,
                                               uint64_t max_bytes) {
  return {reader.read(first, last, max_bytes).release(), DeleteUnlocked()};
}

// Properties of indexes and of blocks of rows: what a survey of the text has found.
template <typename Surveyed, typename Survey>
void bind_survey(Surveyed& surveyed, Survey survey_of) {
  using Self = typename Surveyed::type;
  surveyed.def_property_readonly("fields", [=](const Self& self) { return fields_of(survey_of(self)); })
      .def_property_readonly("has_cells", [=](const Self& self) { return survey_of(self).has_cells(); })
      .def_property_readonly("left_out", [=](const Self& self) { return survey_of(self).left_out(); });
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
          py::arg("name"), py::arg("strict"))
      .def_property_readonly("bytes_read", locked(&Scanner::bytes_read))
      .def_property_readonly("file_bytes", locked(&Scanner::file_bytes));
}

}  // namespace

void bind_parsed(py::module_& module) {
  py::class_<Index, SharedIndex> index(module, "ParsedIndex");
  index.attr("head_bytes") = parsed::kIndexHeadBytes;
  bind_survey(index, [](const Index& self) -> const parsed::Survey& { return self.survey; });
  index.def_static("decode", &decode_index_bytes, py::arg("bytes"), py::arg("name"))
      .def_static("is_of", &is_index_of, py::arg("head"), py::arg("file"))
      .def("encode", &encode_index_bytes)
      .def("__len__", [](const Index& self) { return self.entries.size(); })
      .def_property_readonly("stamp", [](const Index& self) { return self.stamp; })
      .def_property_readonly("ends_open", [](const Index& self) { return self.ends_open; })
      .def("copy_counts", &copy_counts, py::arg("counts"));
  py::class_<FieldMap, std::shared_ptr<FieldMap>>(module, "FieldMap")
      .def(py::init(unlocked(&make_fields)), py::arg("targets"), py::arg("has_cells"), py::arg("masses"),
           py::arg("keeps_nan"), py::arg("ignored"), py::arg("is_exact") = false);
  py::class_<extxyz::Remarks, std::shared_ptr<extxyz::Remarks>>(module, "ExtxyzRemarks")
      .def(py::init<>())
      .def("take", &extxyz::Remarks::take);
  py::class_<extxyz::FrameSource, MoleculeSource, std::shared_ptr<extxyz::FrameSource>>(module, "ExtxyzSource")
      .def(py::init(unlocked(&open_frame_source)), py::arg("path"), py::arg("name"), py::arg("version"),
           py::arg("index"), py::arg("fields"), py::arg("access"), py::arg("populate"), py::arg("remarks") = nullptr);
  bind_scanner<extxyz::FrameScanner>(module, "ExtxyzScanner")
      .def(py::init(unlocked(&start_frame_scan)), py::arg("path"), py::arg("name"), py::arg("n_threads"))
      .def(
          "check",
          [](Locked<extxyz::FrameScanner>& self, const Path& name, const Index& index) {
            self.use([&](const auto& scanner) { scanner.check(name.bytes, index.entries.size()); });
          },
          py::arg("name"), py::arg("index"));
  py::class_<lmdb::PageFile, UniqueHandle<lmdb::PageFile>>(module, "LmdbFile")
      .def(py::init(unlocked(&open_lmdb_file)), py::arg("path"))
      .def("get", &value_at, py::arg("key"))
      .def_property_readonly("entries", [](const lmdb::PageFile& self) { return self.header().entries; });
  bind_scanner<lmdb::RowScanner>(module, "LmdbRowScanner")
      .def(py::init(unlocked(&start_row_scan)), py::arg("path"), py::arg("n_threads"));
  py::class_<lmdb::RowSource, MoleculeSource, std::shared_ptr<lmdb::RowSource>>(module, "LmdbRowSource")
      .def(py::init(unlocked(&open_row_source)), py::arg("path"), py::arg("version"), py::arg("index"),
           py::arg("fields"), py::arg("access"), py::arg("populate"));
  py::class_<lmdb::RowBlock, std::shared_ptr<lmdb::RowBlock>> block(module, "LmdbRowBlock");
  bind_survey(block, [](const lmdb::RowBlock& self) -> const parsed::Survey& { return self.survey(); });
  block.def("__len__", [](const lmdb::RowBlock& self) { return self.rows().size(); });
  py::class_<lmdb::RowBlockSource, MoleculeSource, std::shared_ptr<lmdb::RowBlockSource>>(module, "LmdbRowBlockSource")
      .def(py::init(constructor<std::shared_ptr<lmdb::RowBlockSource>, std::shared_ptr<lmdb::RowBlock>,
                                std::shared_ptr<FieldMap>>()),
           py::arg("block"), py::arg("fields"));
  py::class_<lmdb::RowReader, UniqueHandle<lmdb::RowReader>>(module, "LmdbRowReader")
      .def(py::init(unlocked(&open_row_reader)), py::arg("path"), py::arg("n_threads"))
      .def("__len__", &lmdb::RowReader::size)
      .def("read", unlocked(&read_row_block), py::arg("first"), py::arg("last"), py::arg("max_bytes"));
  module.def("file_version", unlocked(&version_now), py::arg("path"));
}

}  // namespace atompack::bindings
