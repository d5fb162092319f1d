#include "bindings/bindings.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/atlas_metadata.h"
#include "bindings/atlas_values.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/locked.h"
#include "bindings/path.h"
#include "bindings/plain_arrays.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/collection_writer.h"
#include "formats/atlas_store/writer.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::ArrayDefinition;
using array_file::Box;
using array_file::Type;

using Extents = std::vector<uint64_t>;
using StoreWriter = Locked<atlas_store::Writer>;
using FileWriter = Locked<array_file::Writer>;

io::FileSystem& files_of(bool durable) { return durable ? io::real_file_system() : io::unsynced_file_system(); }

// Returns a view; the caller keeps the array alive.
Bytes bytes_of(const py::array& values) {
  check_plain(values);
  return {static_cast<const std::byte*>(values.data()), static_cast<size_t>(values.nbytes())};
}

// Kind, as NumPy names it, and size of the items of an array.
struct Items {
  char kind = 0;
  uint64_t bytes = 0;
};

bool are_stored_as(const Items& items, Type type) {
  const auto kind = [&] {
    switch (type) {
      case Type::float32:
      case Type::float64:
        return 'f';
      case Type::uint8:
      case Type::uint16:
      case Type::uint32:
      case Type::uint64:
        return 'u';
      case Type::int8:
      case Type::int16:
      case Type::int32:
      case Type::int64:
      case Type::timestamp:
        return 'i';
      default:
        return '\0';
    }
  };
  return items.kind == kind() && items.bytes == array_file::item_bytes(type);
}

// Writes values from the first element on if they have the type and memory layout of the array at `place`; otherwise
// returns false and writes nothing.
template <typename Writer, typename... Place>
bool write_unconverted(Locked<Writer>& writer, const py::array& values, const Place&... place) {
  const char order = values.dtype().byteorder();
  if ((order != '=' && order != '|') || (values.flags() & py::array::c_style) == 0) return false;
  const Items items{values.dtype().kind(), static_cast<uint64_t>(values.itemsize())};
  const size_t n_axes = static_cast<size_t>(values.ndim());
  const Box box{Extents(n_axes), Extents(values.shape(), values.shape() + n_axes)};
  return writer.use([&, bytes = bytes_of(values)](Writer& w) {
    const bool fits = are_stored_as(items, w.definition(place...).type);
    if (fits) w.write(place..., box, bytes);
    return fits;
  });
}

// Returns views; the caller keeps the list alive, and with it the strings.
std::vector<std::string_view> strings_of_list(const py::list& values) {
  std::vector<std::string_view> strings;
  strings.reserve(values.size());
  for (const py::handle value : values) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(value.ptr(), &data, &size) != 0) throw py::error_already_set();
    strings.emplace_back(data, static_cast<size_t>(size));
  }
  return strings;
}

// Returns the values in a box of an array, as bytes or as strings.
template <typename Read>
py::object values_of(Type type, const Extents& count, const Read& read) {
  uint64_t n = 1;
  for (const uint64_t extent : count) n *= extent;
  if (!array_file::holds_strings(type)) {
    py::array_t<uint8_t> bytes(static_cast<py::ssize_t>(n * item_bytes(type)));
    read(std::as_writable_bytes(std::span(bytes.mutable_data(), static_cast<size_t>(bytes.size()))));
    return bytes;
  }
  std::vector<std::string> strings(n);
  read(std::span<std::string>(strings));
  const std::vector<int64_t> shape(count.begin(), count.end());
  return nested_strings(strings, shape, type == Type::string ? ColumnKind::text : ColumnKind::bytes);
}

UniqueHandle<StoreWriter> open_store_writer(const Path& path, bool create, std::optional<codec::Codec> codec, int form,
                                            int level, std::optional<uint64_t> block_bytes, bool durable,
                                            uint64_t max_metadata_bytes, std::optional<uint64_t> max_unstored_bytes,
                                            unsigned n_threads) {
  atlas_store::WriterOptions options;
  options.n_threads = n_threads;
  options.max_metadata_bytes = max_metadata_bytes;
  options.max_unstored_bytes = max_unstored_bytes;
  options.codec = codec;
  options.form = static_cast<atlas_store::Form>(form);
  options.level = level;
  options.block_bytes = block_bytes;
  return make_unique_handle<StoreWriter>(path.bytes, create ? atlas_store::Mode::create : atlas_store::Mode::append,
                                         options, files_of(durable));
}

void bind_store_writer(py::module_& module) {
  module.def("write_collection",
             unlocked([](const atlas_store::Store& store, const std::vector<uint32_t>& datasets, const Path& path,
                         codec::Codec codec, int level, unsigned n_threads) {
               atlas_store::write_collection(store, datasets, path.bytes, {codec, level, n_threads});
             }),
             py::arg("store"), py::arg("datasets"), py::arg("path"), py::arg("codec"), py::arg("level"),
             py::arg("n_threads"));
  using Name = const std::string&;
  py::class_<StoreWriter, UniqueHandle<StoreWriter>> writer(module, "AtlasWriter");
  bind_metadata(writer, [](const StoreWriter& self, const auto& action) {
    return self.read([&](auto& w) { return action(w.metadata()); });
  });
  writer
      .def(py::init(unlocked(&open_store_writer)), py::arg("path"), py::arg("create"), py::arg("codec"),
           py::arg("form"), py::arg("level"), py::arg("block_bytes"), py::arg("durable"), py::arg("max_metadata_bytes"),
           py::arg("max_unstored_bytes"), py::arg("n_threads") = 0)
      .def(
          "attributes",
          [](const StoreWriter& self, uint32_t dataset) {
            return self.read([&](auto& w) { return attributes_of(w.metadata(), dataset); });
          },
          py::arg("dataset"))
      .def("definition",
           [](StoreWriter& self, Name dataset, Name array) {
             return describe(self.use([&](auto& w) { return w.definition(dataset, array); }));
           })
      .def("create_dataset", [](StoreWriter& self, Name name) { self.use([&](auto& w) { w.create_dataset(name); }); })
      .def("define",
           [](StoreWriter& self, Name dataset, Name array, Name dtype, const Extents& shape,
              const std::optional<std::vector<std::string>>& names, const std::optional<Extents>& chunk_shape,
              const py::object& fill) {
             const ArrayDefinition definition = definition_of(array, dtype, shape, names, chunk_shape, fill);
             self.use([&](auto& w) { w.define_array(dataset, definition); });
           })
      .def("write",
           [](StoreWriter& self, Name dataset, Name array, const Extents& start, const Extents& count,
              const py::array& values) {
             self.use([&, bytes = bytes_of(values)](auto& w) { w.write(dataset, array, Box{start, count}, bytes); });
           })
      .def("write_unconverted", [](StoreWriter& self, Name dataset, Name array,
                                   const py::array& values) { return write_unconverted(self, values, dataset, array); })
      .def("write_strings",
           [](StoreWriter& self, Name dataset, Name array, const Extents& start, const Extents& count,
              const py::list& values) {
             self.use([&, strings = strings_of_list(values)](auto& w) {
               w.write(dataset, array, Box{start, count}, strings);
             });
           })
      .def("read",
           [](StoreWriter& self, Name dataset, Name array, const Extents& start, const Extents& count) {
             const Type type = self.use([&](auto& w) { return w.definition(dataset, array); }).type;
             self.use([&](auto& w) { w.check_unstored(dataset, array, Box{start, count}); });
             return values_of(type, count, [&](auto out) {
               self.use([&](auto& w) { w.read(dataset, array, Box{start, count}, out); });
             });
           })
      .def("set_attribute",
           [](StoreWriter& self, Name dataset, Name key, const py::object& value) {
             self.use([&, of = attribute_value(value)](auto& w) { w.set_attribute(dataset, key, of); });
           })
      .def("delete_array", [](StoreWriter& self, Name dataset,
                              Name array) { self.use([&](auto& w) { w.delete_array(dataset, array); }); })
      .def("delete_dataset", [](StoreWriter& self, Name name) { self.use([&](auto& w) { w.delete_dataset(name); }); })
      .def("flush", [](StoreWriter& self) { self.use([](auto& w) { w.flush(); }); })
      .def("compact", [](StoreWriter& self) { self.use([](auto& w) { w.compact(); }); })
      .def("rewrite_redefined",
           [](StoreWriter& self) { return self.use([](auto& w) { return w.rewrite_redefined(); }); })
      .def("abandon", [](StoreWriter& self) { self.use([](auto& w) { w.abandon(); }); });
}

UniqueHandle<FileWriter> open_file_writer(const Path& path, codec::Codec codec, int level,
                                          std::optional<uint64_t> block_bytes, bool durable,
                                          uint64_t max_metadata_bytes, std::optional<uint64_t> max_unstored_bytes,
                                          unsigned n_threads) {
  array_file::WriterOptions options;
  options.n_threads = n_threads;
  options.max_metadata_bytes = max_metadata_bytes;
  options.max_unstored_bytes = max_unstored_bytes;
  options.codec = codec;
  options.level = level;
  options.block_bytes = block_bytes;
  return make_unique_handle<FileWriter>(path.bytes, options, files_of(durable));
}

void bind_file_writer(py::module_& module) {
  using Name = const std::string&;
  py::class_<FileWriter, UniqueHandle<FileWriter>>(module, "ArrayFileWriter")
      .def(py::init(unlocked(&open_file_writer)), py::arg("path"), py::arg("codec"), py::arg("level"),
           py::arg("block_bytes"), py::arg("durable"), py::arg("max_metadata_bytes"), py::arg("max_unstored_bytes"),
           py::arg("n_threads") = 0)
      .def("names", [](FileWriter& self) { return self.use([](auto& w) { return w.names(); }); })
      .def("definition",
           [](FileWriter& self, Name name) { return describe(self.use([&](auto& w) { return w.definition(name); })); })
      .def("define",
           [](FileWriter& self, Name name, Name dtype, const Extents& shape,
              const std::optional<std::vector<std::string>>& names, const std::optional<Extents>& chunk_shape,
              const py::object& fill) {
             const ArrayDefinition definition = definition_of(name, dtype, shape, names, chunk_shape, fill);
             self.use([&](auto& w) { w.define(definition); });
           })
      .def("write",
           [](FileWriter& self, Name name, const Extents& start, const Extents& count, const py::array& values) {
             self.use([&, bytes = bytes_of(values)](auto& w) { w.write(name, Box{start, count}, bytes); });
           })
      .def("write_unconverted",
           [](FileWriter& self, Name name, const py::array& values) { return write_unconverted(self, values, name); })
      .def("write_strings",
           [](FileWriter& self, Name name, const Extents& start, const Extents& count, const py::list& values) {
             self.use([&, strings = strings_of_list(values)](auto& w) { w.write(name, Box{start, count}, strings); });
           })
      .def("read",
           [](FileWriter& self, Name name, const Extents& start, const Extents& count) {
             const Type type = self.use([&](auto& w) { return w.definition(name); }).type;
             self.use([&](auto& w) { w.check_unstored(name, Box{start, count}); });
             return values_of(type, count,
                              [&](auto out) { self.use([&](auto& w) { w.read(name, Box{start, count}, out); }); });
           })
      .def("remove", [](FileWriter& self, Name name) { self.use([&](auto& w) { w.remove(name); }); })
      .def("flush", [](FileWriter& self) { self.use([](auto& w) { w.flush(); }); })
      .def("compact", [](FileWriter& self) { self.use([](auto& w) { w.compact(); }); })
      .def("rewrite_redefined",
           [](FileWriter& self) { return self.use([](auto& w) { return w.rewrite_redefined(); }); })
      .def("abandon", [](FileWriter& self) { self.use([](auto& w) { w.abandon(); }); });
}

// (device, inode, size, seconds, nanoseconds) of each layer
py::list versions_of(const array_file::Reader& reader) {
  py::list all;
  for (const io::FileVersion& version : reader.versions()) {
    all.append(py::make_tuple(version.device, version.inode, version.size, version.seconds, version.nanoseconds));
  }
  return all;
}

void bind_file_reader(py::module_& module) {
  using Name = const std::string&;
  using array_file::Reader;
  py::class_<Reader, UniqueHandle<Reader>>(module, "ArrayFileReader")
      .def(py::init(unlocked([](const Path& path, uint64_t max_metadata_bytes, const std::shared_ptr<io::Store>& store,
                                const std::shared_ptr<array_file::BlockCache>& cache) {
             return make_unique_handle<Reader>(io::Location(path.bytes, store), max_metadata_bytes,
                                               array_file::Reading::mapped,
                                               cache ? cache : array_file::shared_block_cache());
           })),
           py::arg("path"), py::arg("max_metadata_bytes"), py::arg("store") = py::none(), py::arg("cache") = py::none())
      .def_property_readonly("versions", &versions_of)
      .def("names", &Reader::names)
      .def(
          "attributes",
          [](const Reader& self, Name name) {
            const array_file::Array array = without_gil([&] { return self.array(name); });
            py::dict all;
            for (const auto& [key, value] : array.attributes) all[str_from_bytes(key)] = attribute_object(value);
            return all;
          },
          py::arg("name"))
      .def("statistics",
           [](const Reader& self) { return statistics_object(without_gil([&] { return self.statistics(); })); })
      .def("definition",
           [](const Reader& self, Name name) {
             return describe(without_gil([&] { return array_file::definition_of(self.array(name), self.layers()); }));
           })
      .def("read", [](const Reader& self, Name name, const Extents& start, const Extents& count,
                      std::optional<uint64_t> max_unstored_bytes) {
        const array_file::Array array = without_gil([&] {
          const array_file::Array found = self.array(name);
          self.check_unstored(found, Box{start, count}, max_unstored_bytes);
          return found;
        });
        return values_of(array.type, count, [&](auto out) {
          without_gil([&] {
            array_file::DecodedBlock last = self.decoded_block();
            self.read(array, Box{start, count}, out, last);
          });
        });
      });
  using Verification = Locked<array_file::Verification>;
  py::class_<Verification, UniqueHandle<Verification>>(module, "ArrayFileVerification")
      .def(
          py::init(unlocked([](const Path& path, uint64_t max_metadata_bytes, const std::shared_ptr<io::Store>& store) {
            return make_unique_handle<Verification>(io::Location(path.bytes, store), max_metadata_bytes);
          })),
          py::arg("path"), py::arg("max_metadata_bytes"), py::arg("store") = py::none())
      .def("names", [](Verification& self) { return self.use([](const auto& file) { return file.names(); }); })
      .def(
          "check", [](Verification& self, Name name) { self.use([&](auto& file) { file.check(name); }); },
          py::arg("name"));
  module.def(
      "read_array_statistics",
      [](const Path& path) {
        return statistics_object(without_gil([&] { return array_file::read_statistics(path.bytes); }));
      },
      py::arg("path"));
}

}  // namespace

void bind_atlas_writer(py::module_& module) {
  bind_store_writer(module);
  bind_file_writer(module);
  bind_file_reader(module);
}

}  // namespace atompack::bindings
