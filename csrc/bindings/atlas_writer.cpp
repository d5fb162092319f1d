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

ATOMPACK_TUPLE(array_file::Box, start, count);
ATOMPACK_TUPLE(atlas_store::WriterOptions, codec, form, level, block_bytes, n_threads, max_metadata_bytes,
               max_unstored_bytes);
template <>
struct Members<array_file::WriterOptions> {
  static auto tie(auto& o) {
    return std::tie(o.codec, o.level, o.block_bytes, o.n_threads, o.max_metadata_bytes, o.max_unstored_bytes);
  }
};

namespace {

using array_file::Box;
using array_file::Type;

using Extents = std::vector<uint64_t>;
using StoreWriter = Locked<atlas_store::Writer>;
using FileWriter = Locked<array_file::Writer>;

io::FileSystem& files_of(bool durable) { return durable ? io::real_file_system() : io::unsynced_file_system(); }

// Returns a view; the caller keeps the array alive.
Bytes bytes_of(const py::array& values) {
  if (!is_plain(values)) throw InternalError("an array is not contiguous, or in another byte order");
  return {static_cast<const std::byte*>(values.data()), static_cast<size_t>(values.nbytes())};
}

// Writes values from the first element on if they have the type and memory layout of the array at `place`; otherwise
// returns false and writes nothing.
template <typename Writer, typename... Place>
bool write_unconverted(Locked<Writer>& writer, const Place&... place, const py::array& values) {
  if (!is_plain(values)) return false;
  const char kind = values.dtype().kind();
  const auto item_bytes = static_cast<uint64_t>(values.itemsize());
  const size_t n_axes = static_cast<size_t>(values.ndim());
  const Box box{Extents(n_axes), Extents(values.shape(), values.shape() + n_axes)};
  return writer.use([&, bytes = bytes_of(values)](Writer& w) {
    const bool fits = array_file::holds_items(w.definition(place...).type, kind, item_bytes);
    if (fits) w.write(place..., box, bytes);
    return fits;
  });
}

// Returns the values in a box of an array, as bytes or as strings.
template <typename Read>
py::object values_of(Type type, const Box& box, const Read& read) {
  const uint64_t n = box.n_elements();
  if (!array_file::holds_strings(type)) {
    py::array_t<uint8_t> bytes(static_cast<py::ssize_t>(n * item_bytes(type)));
    read(std::as_writable_bytes(std::span(bytes.mutable_data(), static_cast<size_t>(bytes.size()))));
    return bytes;
  }
  std::vector<std::string> strings(n);
  read(std::span<std::string>(strings));
  const std::vector<int64_t> shape(box.count.begin(), box.count.end());
  return nested_strings(strings, shape, type == Type::string ? ColumnKind::text : ColumnKind::bytes);
}

// Binds what writers of stores and of single files share; `Place` is the place of an array: its dataset and name, or
// its name.
template <typename Writer, typename... Place>
void bind_writer(py::class_<Locked<Writer>, UniqueHandle<Locked<Writer>>>& writer) {
  using Self = Locked<Writer>;
  writer.def("definition", locked(&Writer::definition))
      .def("write",
           [](Self& self, Place... place, const Box& box, const py::array& values) {
             self.use([&, bytes = bytes_of(values)](Writer& w) { w.write(place..., box, bytes); });
           })
      .def("write_unconverted", &write_unconverted<Writer, std::remove_cvref_t<Place>...>)
      .def("write_strings",
           [](Self& self, Place... place, const Box& box, const std::vector<std::string_view>& strings) {
             self.use([&](Writer& w) { w.write(place..., box, strings); });
           })
      .def("read",
           [](Self& self, Place... place, const Box& box) {
             const Type type = self.use([&](Writer& w) {
               w.check_unstored(place..., box);
               return w.definition(place...).type;
             });
             return values_of(type, box, [&](auto out) { self.use([&](Writer& w) { w.read(place..., box, out); }); });
           })
      .def("flush", locked(&Writer::flush))
      .def("compact", locked(&Writer::compact))
      .def("rewrite_redefined", locked(&Writer::rewrite_redefined))
      .def("abandon", locked(&Writer::abandon));
}

using Name = const std::string&;

void bind_store_writer(py::module_& module) {
  module.def("write_collection",
             unlocked([](const atlas_store::Store& store, const std::vector<uint32_t>& datasets, const Path& path,
                         codec::Codec codec, int level, unsigned n_threads) {
               atlas_store::write_collection(store, datasets, path.bytes, {codec, level, n_threads});
             }),
             "store"_a, "datasets"_a, "path"_a, "codec"_a, "level"_a, "n_threads"_a);
  using atlas_store::Writer;
  py::class_<StoreWriter, UniqueHandle<StoreWriter>> writer(module, "AtlasWriter");
  writer.def(
      py::init(unlocked([](const Path& path, bool create, const atlas_store::WriterOptions& options, bool durable) {
        using atlas_store::Mode;
        const Mode mode = create ? Mode::create : Mode::append;
        return make_unique_handle<StoreWriter>(path, mode, options, files_of(durable));
      })),
      "path"_a, "create"_a, "options"_a, "durable"_a);
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
          "dataset"_a)
      .def("create_dataset", locked(&Writer::create_dataset))
      .def("define", locked(&Writer::define_array))
      .def("set_attribute",
           [](StoreWriter& self, Name dataset, Name key, const py::object& value) {
             self.use([&, of = attribute_value(value)](Writer& w) { w.set_attribute(dataset, key, of); });
           })
      .def("delete_array", locked(&Writer::delete_array))
      .def("delete_dataset", locked(&Writer::delete_dataset));
}

void bind_file_writer(py::module_& module) {
  using array_file::Writer;
  py::class_<FileWriter, UniqueHandle<FileWriter>> writer(module, "ArrayFileWriter");
  writer
      .def(py::init(unlocked([](const Path& path, const array_file::WriterOptions& options, bool durable) {
             return make_unique_handle<FileWriter>(path, options, files_of(durable));
           })),
           "path"_a, "options"_a, "durable"_a)
      .def("names", locked(&Writer::names))
      .def("define", locked(&Writer::define))
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
      .def(py::init(unlocked([](const io::Location& path, uint64_t max_metadata_bytes,
                                const std::shared_ptr<array_file::BlockCache>& cache) {
             return make_unique_handle<Reader>(path, max_metadata_bytes, array_file::Reading::mapped,
                                               cache ? cache : array_file::shared_block_cache());
           })),
           "path"_a, "max_metadata_bytes"_a, "cache"_a = py::none())
      .def_property_readonly("versions", &Reader::versions)
      .def("names", &Reader::names)
      .def(
          "attributes",
          [](const Reader& self, Name name) {
            return attributes_object(without_gil([&] { return self.array(name); }).attributes);
          },
          "name"_a)
      .def("statistics",
           [](const Reader& self) { return statistics_object(without_gil([&] { return self.statistics(); })); })
      .def("definition",
           [](const Reader& self, Name name) {
             return without_gil([&] { return array_file::definition_of(self.array(name), self.layers()); });
           })
      .def("read", [](const Reader& self, Name name, const Box& box, std::optional<uint64_t> max_unstored_bytes) {
        const array_file::Array array = without_gil([&] {
          const array_file::Array found = self.array(name);
          self.check_unstored(found, box, max_unstored_bytes);
          return found;
        });
        return values_of(array.type, box, [&](auto out) {
          without_gil([&] {
            array_file::DecodedBlock last = self.decoded_block();
            self.read(array, box, out, last);
          });
        });
      });
  using Verification = Locked<array_file::Verification>;
  py::class_<Verification, UniqueHandle<Verification>>(module, "ArrayFileVerification")
      .def(py::init(constructor<UniqueHandle<Verification>, io::Location, uint64_t>()), "path"_a,
           "max_metadata_bytes"_a)
      .def("names", locked(&array_file::Verification::names))
      .def("check", locked(&array_file::Verification::check), "name"_a);
  module.def(
      "read_array_statistics",
      [](const Path& path) {
        return statistics_object(without_gil([&] { return array_file::read_statistics(path.bytes); }));
      },
      "path"_a);
}

}  // namespace

void bind_atlas_writer(py::module_& module) {
  bind_store_writer(module);
  bind_file_writer(module);
  bind_file_reader(module);
}

}  // namespace atompack::bindings
