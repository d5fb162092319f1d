#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "bindings/atlas_metadata.h"
#include "bindings/atlas_values.h"
#include "bindings/errors.h"
#include "bindings/locked.h"
#include "bindings/plain_arrays.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/collection_writer.h"
#include "formats/atlas_store/writer.h"

namespace atompack::bindings {
namespace {

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

// Writes values from the first element on if they have the type and memory layout of the array at `place`; otherwise
// returns false and writes nothing.
template <typename Writer, typename... Place>
bool write_unconverted(Locked<Writer>& writer, const Place&... place, const py::array& values) {
  const char order = values.dtype().byteorder(), kind = values.dtype().kind();
  if ((order != '=' && order != '|') || (values.flags() & py::array::c_style) == 0) return false;
  const auto item_bytes = static_cast<uint64_t>(values.itemsize());
  const size_t n_axes = static_cast<size_t>(values.ndim());
  const Box box{Extents(n_axes), Extents(values.shape(), values.shape() + n_axes)};
  return writer.use([&, bytes = bytes_of(values)](Writer& w) {
    const bool fits = array_file::holds_items(w.definition(place...).type, kind, item_bytes);
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

// Binds what writers of stores and of single files share; `Place` is the place of an array: its dataset and name, or
// its name.
template <typename Writer, typename... Place>
void bind_writer(py::class_<Locked<Writer>, UniqueHandle<Locked<Writer>>>& writer) {
  using Self = Locked<Writer>;
  writer
      .def("definition",
           [](Self& self, Place... place) {
             return describe(self.use([&](Writer& w) { return w.definition(place...); }));
           })
      .def("write",
           [](Self& self, Place... place, const Extents& start, const Extents& count, const py::array& values) {
             self.use([&, bytes = bytes_of(values)](Writer& w) { w.write(place..., Box{start, count}, bytes); });
           })
      .def("write_unconverted", &write_unconverted<Writer, std::remove_cvref_t<Place>...>)
      .def("write_strings",
           [](Self& self, Place... place, const Extents& start, const Extents& count, const py::list& values) {
             self.use(
                 [&, strings = strings_of_list(values)](Writer& w) { w.write(place..., Box{start, count}, strings); });
           })
      .def("read",
           [](Self& self, Place... place, const Extents& start, const Extents& count) {
             const Box box{start, count};
             const Type type = self.use([&](Writer& w) {
               w.check_unstored(place..., box);
               return w.definition(place...).type;
             });
             return values_of(type, count, [&](auto out) { self.use([&](Writer& w) { w.read(place..., box, out); }); });
           })
      .def("flush", locked(&Writer::flush))
      .def("compact", locked(&Writer::compact))
      .def("rewrite_redefined", locked(&Writer::rewrite_redefined))
      .def("abandon", locked(&Writer::abandon));
}

using Name = const std::string&;
using Names = std::vector<std::string>;

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
  using atlas_store::Writer;
  py::class_<StoreWriter, UniqueHandle<StoreWriter>> writer(module, "AtlasWriter");
  writer.def(py::init(unlocked(&open_store_writer)), py::arg("path"), py::arg("create"), py::arg("codec"),
             py::arg("form"), py::arg("level"), py::arg("block_bytes"), py::arg("durable"),
             py::arg("max_metadata_bytes"), py::arg("max_unstored_bytes"), py::arg("n_threads") = 0);
  bind_metadata(writer, [](const StoreWriter& self, const auto& action) {
    return self.read([&](auto& w) { return action(w.metadata()); });
  });
  bind_writer<Writer, Name, Name>(writer);
  writer
      .def(
          "attributes",
          [](const StoreWriter& self, uint32_t dataset) {
            return self.read([&](auto& w) { return attributes_of(w.metadata(), dataset); });
          },
          py::arg("dataset"))
      .def("create_dataset", locked(&Writer::create_dataset))
      .def("define",
           [](StoreWriter& self, Name dataset, Name array, Name dtype, const Extents& shape,
              const std::optional<Names>& names, const std::optional<Extents>& chunk_shape, const py::object& fill) {
             const ArrayDefinition definition = definition_of(array, dtype, shape, names, chunk_shape, fill);
             self.use([&](Writer& w) { w.define_array(dataset, definition); });
           })
      .def("set_attribute",
           [](StoreWriter& self, Name dataset, Name key, const py::object& value) {
             self.use([&, of = attribute_value(value)](Writer& w) { w.set_attribute(dataset, key, of); });
           })
      .def("delete_array", locked(&Writer::delete_array))
      .def("delete_dataset", locked(&Writer::delete_dataset));
}

UniqueHandle<FileWriter> open_file_writer(const Path& path, codec::Codec codec, int level,
                                          std::optional<uint64_t> block_bytes, bool durable,
                                          uint64_t max_metadata_bytes, std::optional<uint64_t> max_unstored_bytes,
                                          unsigned n_threads) {
  const array_file::WriterOptions options{.codec = codec,
                                          .level = level,
                                          .block_bytes = block_bytes,
                                          .n_threads = n_threads,
                                          .max_metadata_bytes = max_metadata_bytes,
                                          .max_unstored_bytes = max_unstored_bytes};
  return make_unique_handle<FileWriter>(path.bytes, options, files_of(durable));
}

void bind_file_writer(py::module_& module) {
  using array_file::Writer;
  py::class_<FileWriter, UniqueHandle<FileWriter>> writer(module, "ArrayFileWriter");
  writer
      .def(py::init(unlocked(&open_file_writer)), py::arg("path"), py::arg("codec"), py::arg("level"),
           py::arg("block_bytes"), py::arg("durable"), py::arg("max_metadata_bytes"), py::arg("max_unstored_bytes"),
           py::arg("n_threads") = 0)
      .def("names", locked(&Writer::names))
      .def("define",
           [](FileWriter& self, Name name, Name dtype, const Extents& shape, const std::optional<Names>& names,
              const std::optional<Extents>& chunk_shape, const py::object& fill) {
             const ArrayDefinition definition = definition_of(name, dtype, shape, names, chunk_shape, fill);
             self.use([&](Writer& w) { w.define(definition); });
           })
      .def("attributes",
           [](const FileWriter& self, Name name) {
             return self.read([&](auto& w) { return attributes_object(w.attributes(name)); });
           })
      .def("set_attribute",
           [](FileWriter& self, Name name, Name key, const py::object& value) {
             self.use([&, of = atlas_store::to_array_value(attribute_value(value))](Writer& w) {
               w.set_attribute(name, key, of);
             });
           })
      .def("remove", locked(&Writer::remove));
  bind_writer<Writer, Name>(writer);
}

void bind_file_reader(py::module_& module) {
  using array_file::Reader;
  py::class_<Reader, UniqueHandle<Reader>>(module, "ArrayFileReader")
      .def(py::init(unlocked([](const Path& path, uint64_t max_metadata_bytes, const std::shared_ptr<io::Store>& store,
                                const std::shared_ptr<array_file::BlockCache>& cache) {
             return make_unique_handle<Reader>(io::Location(path.bytes, store), max_metadata_bytes,
                                               array_file::Reading::mapped,
                                               cache ? cache : array_file::shared_block_cache());
           })),
           py::arg("path"), py::arg("max_metadata_bytes"), py::arg("store") = py::none(), py::arg("cache") = py::none())
      .def_property_readonly("versions", &Reader::versions)
      .def("names", &Reader::names)
      .def(
          "attributes",
          [](const Reader& self, Name name) {
            return attributes_object(without_gil([&] { return self.array(name); }).attributes);
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
      .def("names", locked(&array_file::Verification::names))
      .def("check", locked(&array_file::Verification::check), py::arg("name"));
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
