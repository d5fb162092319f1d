#include "bindings/bindings.h"
#include "bindings/enum_casters.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/gil.h"
#include "bindings/locked.h"
#include "bindings/path.h"
#include "bindings/plain_arrays.h"
#include "formats/extxyz/formatter.h"
#include "formats/extxyz/reader.h"
#include "model/element.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using extxyz::Array;
using extxyz::Block;
using extxyz::Field;
using extxyz::Kind;
using Reader = Locked<extxyz::Reader>;

using Shape = std::vector<py::ssize_t>;

// Moves a vector into an array that owns it.
template <typename Element, typename Stored>
py::array to_numpy(std::vector<Stored>&& values, const Shape& shape) {
  static_assert(sizeof(Element) == sizeof(Stored));
  auto owned = std::make_unique<std::vector<Stored>>(std::move(values));
  void* const data = owned->data();
  const py::capsule owner(owned.release(), [](void* vector) { delete static_cast<std::vector<Stored>*>(vector); });
  return py::array(py::dtype::of<Element>(), shape, data, owner);
}

py::object numbers_of(Array&& array, const Shape& shape) {
  if (array.kind == Kind::real) return to_numpy<double>(std::move(array.reals), shape);
  if (array.kind == Kind::integer) return to_numpy<int64_t>(std::move(array.integers), shape);
  return to_numpy<bool>(std::move(array.flags), shape);
}

// `leading` is the number of rows, or empty for a value without rows.
py::object value_of(Array&& array, const Shape& leading) {
  if (array.kind == Kind::text && leading.empty()) return py::str(array.texts[0]);
  if (array.kind == Kind::text) return py::cast(array.texts);
  Shape shape = leading;
  shape.insert(shape.end(), array.shape.begin(), array.shape.end());
  return numbers_of(std::move(array), shape);
}

py::object stacked_values(Field& field, const Block& block) {
  const bool atoms = field.level == Level::atom;
  return value_of(std::move(field.arrays[0]), {static_cast<py::ssize_t>(atoms ? block.numbers.size() : block.size())});
}

py::object separate_values(Field& field, const Block& block) {
  py::list values(block.size());
  auto next = field.arrays.begin();
  for (size_t i = 0; i < field.present.size(); ++i) {
    if (field.present[i] == 0) {
      values[i] = py::none();
      continue;
    }
    const Shape rows = field.level == Level::atom ? Shape{block.ptr[i + 1] - block.ptr[i]} : Shape{};
    values[i] = value_of(std::move(*next++), rows);
  }
  return values;
}

py::tuple describe(Field& field, const Block& block) {
  py::object values = field.stacked ? stacked_values(field, block) : separate_values(field, block);
  const auto n = static_cast<py::ssize_t>(block.size());
  return py::make_tuple(field.level, field.key, std::move(values), to_numpy<bool>(std::move(field.present), {n}));
}

py::object describe(std::optional<Block> made) {
  if (!made) return py::none();
  Block& block = *made;
  const auto n = static_cast<py::ssize_t>(block.size()), n_atoms = static_cast<py::ssize_t>(block.numbers.size());
  py::list fields;
  for (Field& field : block.fields) fields.append(describe(field, block));
  return py::make_tuple(
      block.first_frame, to_numpy<double>(std::move(block.positions), {n_atoms, 3}),
      to_numpy<uint8_t>(std::move(block.numbers), {n_atoms}), to_numpy<int64_t>(std::move(block.ptr), {n + 1}),
      to_numpy<double>(std::move(block.lattices), {n, 3, 3}), to_numpy<bool>(std::move(block.has_lattice), {n}),
      to_numpy<bool>(std::move(block.pbc), {n, 3}), std::move(fields), block.n_plain_comments, block.n_unnamed_words);
}

UniqueHandle<Reader> open_frames(const Path& path, const Path& name) {
  return make_unique_handle<Reader>(path.bytes, name.bytes);
}

py::object next_block(Reader& reader, int64_t max_frames, uint64_t max_bytes) {
  return describe(reader.use([&](extxyz::Reader& r) { return r.next_block(max_frames, max_bytes); }));
}

// Returns a view. The caller has made all arrays contiguous, of float64, int64 or bool, and keeps them alive.
extxyz::ArrayView view_of(py::handle value, bool has_rows) {
  if (value.is_none()) return {};
  if (py::isinstance<py::str>(value)) return {Kind::text, {}, nullptr, value.cast<std::string_view>()};
  const auto array = value.cast<py::array>();
  const char type = array.dtype().kind();
  const Kind kind = type == 'f' ? Kind::real : type == 'i' ? Kind::integer : Kind::flag;
  kind == Kind::real      ? static_cast<void>(span_of<double>(array))
  : kind == Kind::integer ? static_cast<void>(span_of<int64_t>(array))
                          : static_cast<void>(span_of<uint8_t>(array));
  const auto* const dims = array.shape();
  return {kind, {dims + (has_rows ? 1 : 0), dims + array.ndim()}, array.data(), {}};
}

// (level, key, values, present)
using PyField = std::tuple<Level, std::string, py::object, py::array>;

extxyz::FieldView view_of(const PyField& from) {
  const auto& [level, key, values, present] = from;
  extxyz::FieldView field{level, key, span_of<uint8_t>(present), py::isinstance<py::array>(values), {}};
  if (field.stacked) {
    field.arrays.push_back(view_of(values, true));
  } else {
    for (const py::handle value : values) field.arrays.push_back(view_of(value, field.level == Level::atom));
  }
  return field;
}

py::bytes format(const py::array& ptr, const py::array& positions, const py::array& numbers,
                 const std::pair<py::array, py::array>& cell, const std::pair<py::array, py::array>& pbc,
                 const std::vector<PyField>& fields) {
  extxyz::BlockView block{span_of<int64_t>(ptr),         span_of<double>(positions),
                          span_of<int64_t>(numbers),     span_of<double>(cell.first),
                          span_of<uint8_t>(cell.second), span_of<uint8_t>(pbc.first),
                          span_of<uint8_t>(pbc.second),  {}};
  for (const PyField& field : fields) block.fields.push_back(view_of(field));
  return without_gil([&] { return extxyz::format_block(block); });
}

}  // namespace

void bind_extxyz(py::module_& module) {
  py::class_<Reader, UniqueHandle<Reader>>(module, "ExtxyzReader")
      .def(py::init(unlocked(&open_frames)), py::arg("path"), py::arg("name"))
      .def(
          "widen",
          [](Reader& self, Level level, const std::string& key, Kind kind) {
            self.use([&](extxyz::Reader& r) { r.widen(level, key, kind); });
          },
          py::arg("level"), py::arg("key"), py::arg("kind"))
      .def("next_block", &next_block, py::arg("max_frames"), py::arg("max_bytes"))
      .def_property_readonly("bytes_read",
                             [](Reader& self) { return self.use([](extxyz::Reader& r) { return r.bytes_read(); }); })
      .def_property_readonly("file_bytes",
                             [](Reader& self) { return self.use([](extxyz::Reader& r) { return r.file_bytes(); }); })
      .def_property_readonly("ends_open",
                             [](Reader& self) { return self.use([](extxyz::Reader& r) { return r.ends_open(); }); });
  module.def("element_symbols", [] {
    py::list symbols;
    for (uint8_t number = 0; number <= kLastElement; ++number) symbols.append(symbol_of(number));
    return symbols;
  });
  module.def("format_extxyz", &format, py::arg("ptr"), py::arg("positions"), py::arg("numbers"), py::arg("cell"),
             py::arg("pbc"), py::arg("fields"));
}

}  // namespace atompack::bindings
