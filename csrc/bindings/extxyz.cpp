#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "bindings/plain_arrays.h"
#include "formats/extxyz/formatter.h"
#include "model/element.h"

namespace atompack::bindings {
namespace {

using extxyz::Kind;

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
  module.def("element_symbols", [] {
    py::list symbols;
    for (uint8_t number = 0; number <= kLastElement; ++number) symbols.append(symbol_of(number));
    return symbols;
  });
  module.def("format_extxyz", &format, py::arg("ptr"), py::arg("positions"), py::arg("numbers"), py::arg("cell"),
             py::arg("pbc"), py::arg("fields"));
}

}  // namespace atompack::bindings
