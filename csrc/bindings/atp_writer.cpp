#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "bindings/errors.h"
#include "bindings/plain_arrays.h"
#include "codec/codec.h"
#include "formats/atp/inspect.h"
#include "formats/atp/path_writer.h"

namespace atompack::bindings {
namespace {

using atp::Column;
using atp::Columns;
using atp::PathWriter;
using atp::Value;

using Integers = std::span<const int64_t>;

// Returns a view of a contiguous array in native byte order; the caller keeps the array alive.
Value value_of(const py::array& array) {
  if (!is_plain(array)) throw InternalError("an array is not contiguous, or in another byte order");
  Value value{ValueKind::numeric, dtype_of(array), {}, {}};
  if (array.ndim() > Shape::kMaxRank) {
    throw FieldError(cat("shape: expected at most ", Shape::kMaxRank, " dimensions, got ", array.ndim()));
  }
  for (py::ssize_t i = 0; i < array.ndim(); ++i) value.shape.push_back(array.shape(i));
  value.data = {static_cast<const std::byte*>(array.data()), static_cast<size_t>(array.nbytes())};
  return value;
}

Value value_of(py::handle item) {
  if (item.is_none()) return {};
  if (py::isinstance<py::array>(item)) return value_of(py::reinterpret_borrow<py::array>(item));
  if (!PyUnicode_Check(item.ptr())) throw InternalError("a value is no array, text or None");
  Py_ssize_t n = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(item.ptr(), &n);  // owned by the string
  if (text == nullptr) {
    PyErr_Clear();
    throw FieldError("text: holds characters that UTF-8 has no bytes for");
  }
  return {ValueKind::string, DType::uint8, {}, as_bytes({text, static_cast<size_t>(n)})};
}

// (scope, key, array or list of array, str or None, mask or None)
Column column_of(py::handle item) {
  const auto [scope, key, values, mask] =
      item.cast<std::tuple<Scope, std::string, py::object, std::optional<std::span<const bool>>>>();
  Column column{scope, key, std::nullopt, {}, mask ? mask->data() : nullptr};
  try {
    if (py::isinstance<py::array>(values)) {
      column.stacked = value_of(py::reinterpret_borrow<py::array>(values));
    } else {
      for (const py::handle value : py::reinterpret_borrow<py::list>(values)) column.each.push_back(value_of(value));
    }
  } catch (DataError& error) {
    error.at_field(key).at_molecule(static_cast<int64_t>(column.each.size()));
    throw;
  }
  return column;
}

// (positions, atomic numbers, ptr, [columns], rows or None)
Columns columns_of(py::handle item) {
  const auto [positions, numbers, ptr, fields, rows] =
      item.cast<std::tuple<py::array, py::array, Integers, py::list, std::optional<Integers>>>();
  Columns columns{value_of(positions), value_of(numbers), ptr, {}, rows};
  for (const py::handle field : fields) columns.fields.push_back(column_of(field));
  return columns;
}

void write(PathWriter& self, const py::list& runs) {
  std::vector<Columns> all;
  all.reserve(runs.size());
  for (const py::handle run : runs) all.push_back(columns_of(run));
  without_gil([&] { self.write(all); });
}

}  // namespace

void bind_atp_writer(py::module_& module) {
  py::class_<PathWriter, UniqueHandle<PathWriter>>(module, "AtpWriter")
      .def(
          py::init(
              constructor<UniqueHandle<PathWriter>, Path, atp::OpenMode, std::optional<codec::Codec>, int, unsigned>()),
          "path"_a, "mode"_a, "codec"_a, "level"_a, "n_threads"_a = 0)
      .def("write", &write, "runs"_a)
      .def("copy", unlocked(&PathWriter::copy), "source"_a, "indices"_a)
      .def("commit", unlocked(&PathWriter::commit), "publish"_a)
      .def("close", unlocked(&PathWriter::close))
      .def("discard", unlocked(&PathWriter::discard))
      .def_property_readonly("is_open", unlocked(&PathWriter::is_open))
      .def_property_readonly("n_molecules", unlocked(&PathWriter::n_molecules))
      .def_property_readonly("codec", unlocked([](const PathWriter& self) { return self.codec(); }))
      .def_property_readonly("present_path", [](const PathWriter& self) {
        return str_from_bytes(without_gil([&] { return self.present_path(); }));
      });
  module.def("check_same_records", unlocked(&atp::check_same_records), "original"_a, "indices"_a, "copy"_a, "first"_a);
  const auto range_of = [](codec::Codec codec) {
    const codec::LevelRange range = codec::level_range(codec);
    return py::make_tuple(range.min, range.max);
  };
  module.attr("ZSTD_LEVELS") = range_of(codec::Codec::zstd);
  module.attr("LZ4_LEVELS") = range_of(codec::Codec::lz4);
}

}  // namespace atompack::bindings
