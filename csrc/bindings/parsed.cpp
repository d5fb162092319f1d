// Datasets whose molecules are parsed from text when they are read.
#include <pybind11/stl.h>

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/locked.h"
#include "bindings/path.h"
#include "formats/extxyz/frame_index.h"
#include "formats/extxyz/frame_source.h"
#include "formats/lmdb/row_block.h"
#include "formats/lmdb/row_index.h"
#include "formats/lmdb/row_source.h"
#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using parsed::FieldMap;
using parsed::Index;
using parsed::Target;

using SharedIndex = std::shared_ptr<Index>;
// (device, inode, size, seconds, nanoseconds)
using Version = std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>;
// (level, key, scope, name, kind, shape or None, is_narrow, from_momenta)
using PyTarget =
    std::tuple<Level, std::string, Scope, std::string, parsed::Kind, std::optional<std::vector<int64_t>>, bool, bool>;

io::FileVersion version_from(const Version& version) {
  const auto& [device, inode, size, seconds, nanoseconds] = version;
  return {device, inode, size, seconds, nanoseconds};
}

Version version_now(const Path& path) {
  const io::FileVersion version = io::open_file(path.bytes)->version();
  return {version.device, version.inode, version.size, version.seconds, version.nanoseconds};
}

using Scanner = Locked<extxyz::FrameScanner>;

UniqueHandle<Scanner> start_scan(const Path& path, const Path& name, unsigned n_threads) {
  return in_file(name.bytes, [&] { return make_unique_handle<Scanner>(path.bytes, n_threads); });
}

// Throws the damage that ended the scan, if there is some, after the molecules of the index.
void check_scan(Scanner& scanner, const Path& name, const Index& index) {
  const std::exception_ptr damage = scanner.use([](extxyz::FrameScanner& s) { return s.damage(); });
  if (damage == nullptr) return;
  try {
    std::rethrow_exception(damage);
  } catch (DataError& error) {
    error.in_file(name.bytes).at_molecule(static_cast<int64_t>(index.entries.size()));
    throw;
  }
}

// Throws the damage that ended the scan if `strict`, or if nothing can be read.
SharedIndex finish_scan(Scanner& scanner, const Path& name, bool strict) {
  extxyz::FrameScan scan = scanner.use([](extxyz::FrameScanner& s) { return s.take(); });
  auto index = make_shared_handle<Index>(std::move(scan.index));
  if (strict || scan.is_refused) check_scan(scanner, name, *index);
  return index;
}

py::list fields_of(const parsed::Survey& survey) {
  py::list fields;
  for (const parsed::SurveyedField& field : survey.fields()) {
    const py::object shape = field.shape ? py::object(py::tuple(py::cast(*field.shape))) : py::none();
    fields.append(py::make_tuple(field.level, field.key, field.kind, shape, field.is_narrow));
  }
  return fields;
}

std::map<std::string, uint64_t> left_out_of(const parsed::Survey& survey) {
  return {survey.left_out().begin(), survey.left_out().end()};
}

py::bytes encode_index_bytes(const Index& index) {
  const std::vector<std::byte> bytes = without_gil([&] { return parsed::encode_index(index); });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

SharedIndex decode_index_bytes(const py::buffer& buffer, const Path& name) {
  const py::buffer_info info = buffer.request();
  const Bytes bytes(static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize));
  return without_gil(
      [&] { return in_file(name.bytes, [&] { return make_shared_handle<Index>(parsed::decode_index(bytes)); }); });
}

// True if these are the first bytes of an index of a file of this size and time.
bool is_index_of(const py::bytes& head, const std::tuple<uint64_t, int64_t, int64_t>& file) {
  try {
    const parsed::FileStamp stamp = parsed::stamp_of_index(as_bytes(std::string_view(head)));
    return file == std::tuple(stamp.bytes, stamp.seconds, stamp.nanoseconds);
  } catch (const DataError&) {
    return false;
  }
}

// Writes to memory of the caller; `address` points to as many int64 as there are molecules.
void copy_counts(const Index& index, uintptr_t address) {
  auto* out = reinterpret_cast<int64_t*>(address);
  for (const parsed::IndexEntry& entry : index.entries) *out++ = static_cast<int64_t>(entry.n_atoms);
}

std::shared_ptr<FieldMap> make_fields(const std::vector<PyTarget>& targets, bool has_cells, std::vector<double> masses,
                                      bool keeps_nan, const std::vector<std::pair<Level, std::string>>& ignored,
                                      bool is_exact) {
  std::vector<Target> made;
  for (const auto& [level, key, scope, name, kind, shape, is_narrow, from_momenta] : targets) {
    made.push_back({level, key, scope, name, kind, shape, from_momenta, is_narrow});
  }
  auto fields = make_shared_handle<FieldMap>(made, has_cells, std::move(masses), keeps_nan, is_exact);
  for (const auto& [level, key] : ignored) fields->ignore(level, key);
  return fields;
}

std::shared_ptr<extxyz::FrameSource> open_frame_source(const Path& path, const Path& name, const Version& version,
                                                       SharedIndex index, std::shared_ptr<FieldMap> fields,
                                                       io::Access access, bool populate,
                                                       std::shared_ptr<extxyz::Remarks> remarks) {
  return make_shared_handle<extxyz::FrameSource>(path.bytes, name.bytes, version_from(version), std::move(index),
                                                 std::move(fields),
                                                 extxyz::FrameOptions{access, populate, std::move(remarks)});
}

using LmdbScanner = Locked<lmdb::RowScanner>;

UniqueHandle<LmdbScanner> start_row_scan(const Path& path, unsigned n_threads) {
  return make_unique_handle<LmdbScanner>(path.bytes, n_threads);
}

std::shared_ptr<lmdb::RowSource> open_row_source(const Path& path, const Version& version, SharedIndex index,
                                                 std::shared_ptr<FieldMap> fields, io::Access access, bool populate) {
  return make_shared_handle<lmdb::RowSource>(path.bytes, version_from(version), std::move(index), std::move(fields),
                                             access, populate);
}

// The values of an LMDB file by their keys.
class LmdbFile {
 public:
  explicit LmdbFile(const std::string& path) : pages_(io::open_file(path), io::Access::read, false) {}

  uint64_t entries() const { return pages_.header().entries; }
  py::object get(const py::bytes& key) const {
    const auto wanted = static_cast<std::string_view>(key);
    io::RangeBuffer buffer;
    const std::optional<Bytes> value = without_gil([&]() -> std::optional<Bytes> {
      const auto range = pages_.find(wanted);
      if (!range) return std::nullopt;
      return pages_.bytes().bytes(range->offset, range->bytes, buffer);
    });
    if (!value) return py::none();
    return py::bytes(reinterpret_cast<const char*>(value->data()), value->size());
  }

 private:
  lmdb::PageFile pages_;
};

UniqueHandle<LmdbFile> open_lmdb_file(const Path& path) { return make_unique_handle<LmdbFile>(path.bytes); }

// Rows of a database, read in blocks.
struct RowReader {
  RowReader(std::string file, unsigned threads) : path(std::move(file)), n_threads(threads), rows(path) {}
  std::string path;
  unsigned n_threads;
  lmdb::RowList rows;
  std::shared_ptr<lmdb::RowPool> pool = std::make_shared<lmdb::RowPool>();
};

UniqueHandle<RowReader> open_row_reader(const Path& path, unsigned n_threads) {
  return make_unique_handle<RowReader>(path.bytes, n_threads);
}

// Reads the rows from `first` on, up to `last` or until they take `max_bytes` of the file; at least one.
std::shared_ptr<lmdb::RowBlock> read_row_block(RowReader& reader, int64_t first, int64_t last, uint64_t max_bytes) {
  if (first < 0 || last <= first || last > reader.rows.size()) throw InternalError("rows out of range");
  int64_t end = first + 1;
  uint64_t bytes = reader.rows.range(first).bytes;
  while (end < last && bytes < max_bytes) bytes += reader.rows.range(end++).bytes;
  return make_shared_handle<lmdb::RowBlock>(reader.rows, reader.path, first, end, reader.n_threads, reader.pool);
}

std::shared_ptr<lmdb::RowBlockSource> source_of_block(std::shared_ptr<lmdb::RowBlock> block,
                                                      std::shared_ptr<FieldMap> fields) {
  return make_shared_handle<lmdb::RowBlockSource>(std::move(block), std::move(fields));
}

}  // namespace

void bind_parsed(py::module_& module) {
  py::class_<Index, SharedIndex> index(module, "ParsedIndex");
  index.attr("head_bytes") = parsed::kIndexHeadBytes;
  index.def_static("decode", &decode_index_bytes, py::arg("bytes"), py::arg("name"))
      .def_static("is_of", &is_index_of, py::arg("head"), py::arg("file"))
      .def("encode", &encode_index_bytes)
      .def("__len__", [](const Index& self) { return self.entries.size(); })
      .def_property_readonly("fields", [](const Index& self) { return fields_of(self.survey); })
      .def_property_readonly("has_cells", [](const Index& self) { return self.survey.has_cells(); })
      // (bytes, seconds, nanoseconds) of the file
      .def_property_readonly("stamp",
                             [](const Index& self) {
                               const parsed::FileStamp& stamp = self.stamp;
                               return std::make_tuple(stamp.bytes, stamp.seconds, stamp.nanoseconds);
                             })
      .def_property_readonly("left_out", [](const Index& self) { return left_out_of(self.survey); })
      .def_property_readonly("ends_open", [](const Index& self) { return self.ends_open; })
      .def("copy_counts", unlocked(&copy_counts), py::arg("address"));
  py::class_<FieldMap, std::shared_ptr<FieldMap>>(module, "FieldMap")
      .def(py::init(unlocked(&make_fields)), py::arg("targets"), py::arg("has_cells"), py::arg("masses"),
           py::arg("keeps_nan"), py::arg("ignored"), py::arg("is_exact") = false);
  py::class_<extxyz::Remarks, std::shared_ptr<extxyz::Remarks>>(module, "ExtxyzRemarks")
      .def(py::init<>())
      .def("take", &extxyz::Remarks::take);
  py::class_<extxyz::FrameSource, MoleculeSource, std::shared_ptr<extxyz::FrameSource>>(module, "ExtxyzSource")
      .def(py::init(unlocked(&open_frame_source)), py::arg("path"), py::arg("name"), py::arg("version"),
           py::arg("index"), py::arg("fields"), py::arg("access"), py::arg("populate"), py::arg("remarks") = nullptr);
  py::class_<Scanner, UniqueHandle<Scanner>>(module, "ExtxyzScanner")
      .def(py::init(unlocked(&start_scan)), py::arg("path"), py::arg("name"), py::arg("n_threads"))
      .def("advance", [](Scanner& self) { return self.use([](extxyz::FrameScanner& s) { return s.advance(); }); })
      .def("finish", &finish_scan, py::arg("name"), py::arg("strict"))
      .def("check", &check_scan, py::arg("name"), py::arg("index"))
      .def_property_readonly(
          "bytes_read", [](Scanner& self) { return self.use([](extxyz::FrameScanner& s) { return s.bytes_read(); }); })
      .def_property_readonly(
          "file_bytes", [](Scanner& self) { return self.use([](extxyz::FrameScanner& s) { return s.file_bytes(); }); });
  py::class_<LmdbFile, UniqueHandle<LmdbFile>>(module, "LmdbFile")
      .def(py::init(unlocked(&open_lmdb_file)), py::arg("path"))
      .def("get", &LmdbFile::get, py::arg("key"))
      .def_property_readonly("entries", &LmdbFile::entries);
  py::class_<LmdbScanner, UniqueHandle<LmdbScanner>>(module, "LmdbRowScanner")
      .def(py::init(unlocked(&start_row_scan)), py::arg("path"), py::arg("n_threads"))
      .def("advance", [](LmdbScanner& self) { return self.use([](lmdb::RowScanner& s) { return s.advance(); }); })
      .def(
          "finish",
          [](LmdbScanner& self, const Path&, bool) {
            return make_shared_handle<Index>(self.use([](lmdb::RowScanner& s) { return s.take(); }));
          },
          py::arg("name"), py::arg("strict"))
      .def_property_readonly(
          "bytes_read", [](LmdbScanner& self) { return self.use([](lmdb::RowScanner& s) { return s.bytes_read(); }); })
      .def_property_readonly(
          "file_bytes", [](LmdbScanner& self) { return self.use([](lmdb::RowScanner& s) { return s.file_bytes(); }); });
  py::class_<lmdb::RowSource, MoleculeSource, std::shared_ptr<lmdb::RowSource>>(module, "LmdbRowSource")
      .def(py::init(unlocked(&open_row_source)), py::arg("path"), py::arg("version"), py::arg("index"),
           py::arg("fields"), py::arg("access"), py::arg("populate"));
  py::class_<lmdb::RowBlock, std::shared_ptr<lmdb::RowBlock>>(module, "LmdbRowBlock")
      .def("__len__", [](const lmdb::RowBlock& self) { return self.rows().size(); })
      .def_property_readonly("fields", [](const lmdb::RowBlock& self) { return fields_of(self.survey()); })
      .def_property_readonly("left_out", [](const lmdb::RowBlock& self) { return left_out_of(self.survey()); })
      .def_property_readonly("has_cells", [](const lmdb::RowBlock& self) { return self.survey().has_cells(); });
  py::class_<lmdb::RowBlockSource, MoleculeSource, std::shared_ptr<lmdb::RowBlockSource>>(module, "LmdbRowBlockSource")
      .def(py::init(unlocked(&source_of_block)), py::arg("block"), py::arg("fields"));
  py::class_<RowReader, UniqueHandle<RowReader>>(module, "LmdbRowReader")
      .def(py::init(unlocked(&open_row_reader)), py::arg("path"), py::arg("n_threads"))
      .def("__len__", [](const RowReader& self) { return self.rows.size(); })
      .def("read", unlocked(&read_row_block), py::arg("first"), py::arg("last"), py::arg("max_bytes"));
  module.def("file_version", unlocked(&version_now), py::arg("path"));
}

}  // namespace atompack::bindings
