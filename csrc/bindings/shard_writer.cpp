#include <pybind11/numpy.h>

#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "bindings/element_types.h"
#include "bindings/locked.h"
#include "bindings/plain_arrays.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_shards/writer.h"
#include "formats/atp/path_writer.h"
#include "model/value.h"
#include "serial/pickle/numpy_calls.h"
#include "serial/pickle/writer.h"

namespace atompack::bindings {
namespace {

constexpr int kMaxDepth = 64;  // that readers accept

// Thrown for a value that cannot be written, with the path to it in the example.
struct Refusal {
  std::string path, what;
};

[[noreturn]] void refuse(std::string what) { throw Refusal{"", std::move(what)}; }

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

[[noreturn]] void refuse_type(py::handle value) {
  refuse(
      cat("expected None, bool, int, float, str, bytes, list, tuple, dict, an array or scalar of NumPy or a "
          "torch.Tensor, got ",
          type_name(value)));
}

// Prepends a step to the path of a Refusal from `write`.
template <typename Step, typename Write>
void with_step(const Step& step, const Write& write) {
  try {
    write();
  } catch (Refusal& refusal) {
    refusal.path = cat('[', step(), ']', refusal.path);
    throw;
  }
}

std::string repr_of(py::handle key) { return py::repr(key).cast<std::string>(); }

bool is_numpy_scalar(py::handle value) {
  static auto& generic = *new py::object;  // never destroyed: the interpreter may have ended before
  return py::isinstance(value, numpy_class("generic", generic));
}

bool is_memmap(py::handle value) {
  static auto& memmap = *new py::object;
  return Py_TYPE(value.ptr()) == reinterpret_cast<PyTypeObject*>(numpy_class("memmap", memmap).ptr());
}

bool has_plain_strides(const py::array& array) {
  const py::ssize_t item = array.itemsize();
  return item > 0 && std::all_of(array.strides(), array.strides() + array.ndim(),
                                 [&](py::ssize_t stride) { return stride >= 0 && stride % item == 0; });
}

std::vector<int64_t> shape_of(const py::array& array) { return {array.shape(), array.shape() + array.ndim()}; }

// Writes values of the types that a reader accepts by default as pickles; refuses all others, including subclasses.
class ExampleWriter {
 public:
  // With `tensors_as_arrays`, tensors become NumPy arrays.
  ExampleWriter(pickle::Writer& out, bool tensors_as_arrays) : out_(out), tensors_as_arrays_(tensors_as_arrays) {}

  // Raises TypeError with the path of a value that cannot be written; `out` then holds part of the example.
  void write(py::handle example) {
    try {
      put(example);
    } catch (const Refusal& refusal) {
      throw py::type_error(cat("example", refusal.path, ": ", refusal.what));
    }
  }

 private:
  void enter() {
    if (++depth_ > kMaxDepth) refuse(cat("expected values at most ", kMaxDepth, " deep, got deeper ones"));
  }

  void put(py::handle value) {
    PyObject* const object = value.ptr();
    if (value.is_none()) return out_.none();
    if (PyBool_Check(object)) return out_.boolean(object == Py_True);
    if (PyLong_CheckExact(object)) return put_int(value);
    if (PyFloat_CheckExact(object)) return out_.real(PyFloat_AS_DOUBLE(object));
    if (PyUnicode_CheckExact(object)) return put_string(value, false);
    if (PyBytes_CheckExact(object))
      return out_.bytes(as_bytes({PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))}));
    if (py::isinstance<py::array>(value)) return put_array(value, false);
    if (is_numpy_scalar(value)) return put_array(value, true);
    if (is_plain_tensor(value)) return put_tensor(value);
    const bool is_list = PyList_CheckExact(object), is_tuple = PyTuple_CheckExact(object);
    if (!is_list && !is_tuple && !PyDict_CheckExact(object)) refuse_type(value);
    enter();
    if (is_list) {
      out_.begin_list();
      put_items(value, &PyList_Size, &PyList_GetItem);
      out_.end_list();
    } else if (is_tuple) {
      out_.begin_tuple();
      put_items(value, &PyTuple_Size, &PyTuple_GetItem);
      out_.end_tuple();
    } else {
      put_dict(value);
    }
    --depth_;
  }

  void put_int(py::handle value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return out_.integer(number);
    const auto n_bits = value.attr("bit_length")().cast<size_t>();
    const py::bytes bytes = value.attr("to_bytes")(n_bits / 8 + 1, "little", "signed"_a = true);
    out_.big_integer(as_bytes(bytes));
  }

  // Lone surrogates, which UTF-8 cannot represent, are written as in Python's own pickles.
  void put_string(py::handle value, bool is_key) {
    const auto put = [&](std::string_view text) { is_key ? out_.key(text) : out_.text(text); };
    Py_ssize_t size = 0;
    if (const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size)) {
      return put({text, static_cast<size_t>(size)});
    }
    PyErr_Clear();
    const auto encoded =
        py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogatepass"));
    if (!encoded) throw py::error_already_set();
    put(encoded);
  }

  // The size is read again in each step: another thread may change a list while the GIL is released.
  void put_items(py::handle sequence, Py_ssize_t (*size)(PyObject*), PyObject* (*item)(PyObject*, Py_ssize_t)) {
    for (Py_ssize_t i = 0; i < size(sequence.ptr()); ++i) {
      const auto value = py::reinterpret_borrow<py::object>(item(sequence.ptr(), i));
      with_step([&] { return i; }, [&] { put(value); });
    }
  }

  void put_dict(py::handle dict) {
    out_.begin_dict();
    PyObject *next_key = nullptr, *next_value = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(dict.ptr(), &place, &next_key, &next_value) != 0;) {
      const auto key = py::reinterpret_borrow<py::object>(next_key),
                 value = py::reinterpret_borrow<py::object>(next_value);
      with_step([&] { return repr_of(key); },
                [&] {
                  PyUnicode_CheckExact(key.ptr()) ? put_string(key, true) : put(key);
                  put(value);
                });
    }
    out_.end_dict();
  }

  void put_array(py::handle value, bool is_scalar) {
    if (!is_scalar && Py_TYPE(value.ptr()) != py::detail::npy_api::get().PyArray_Type_ && !is_memmap(value)) {
      refuse_type(value);
    }
    py::array array = py::array::ensure(value);
    const std::optional<NumpyType> type = numpy_type(array.dtype());
    if (!type)
      refuse(cat("expected elements of plain data, each field with bytes of its own, got ",
                 py::str(array.dtype()).cast<std::string>()));
    if (type->type.kind == ElementKind::object) return put_objects(array);
    if (!has_plain_strides(array)) array = py::array::ensure(array, py::array::c_style);
    const std::vector<int64_t> shape = shape_of(array);
    std::vector<int64_t> strides(array.strides(), array.strides() + array.ndim());
    for (int64_t& stride : strides) stride /= std::max<int64_t>(array.itemsize(), 1);
    const Array view = pickle::view_of(type->table(), type->type, shape, strides, array.data());
    is_scalar ? out_.scalar(view) : out_.array(view);
  }

  void put_objects(py::handle array) {
    enter();
    const py::list objects = array.attr("reshape")(-1).attr("tolist")();
    out_.begin_objects(shape_of(py::reinterpret_borrow<py::array>(array)), false);
    put_items(objects, &PyList_Size, &PyList_GetItem);
    out_.end_objects();
    --depth_;
  }

  void put_tensor(py::handle value) {
    at::Tensor tensor = as_tensor(value).detach();
    const bool requires_grad = as_tensor(value).requires_grad();
    if (tensor.is_nested()) refuse("expected a dense tensor on the CPU, got a nested one");
    if (!tensor.is_cpu() || tensor.layout() != at::kStrided) {
      refuse(cat("expected a dense tensor on the CPU, got one of ", tensor.device().str(), ", ", tensor.layout()));
    }
    tensor = tensor.resolve_conj().resolve_neg();
    const std::optional<DType> type = collate::find_dtype(tensor.scalar_type());
    const bool is_bfloat16 = type == DType::bfloat16;
    const bool is_wide = type == DType::uint16 || type == DType::uint32 || type == DType::uint64;
    if (!type || (tensors_as_arrays_ ? is_bfloat16 : is_wide)) {
      refuse(cat("expected elements that ", tensors_as_arrays_ ? "NumPy has" : "torch reads back", ", got ",
                 c10::toString(tensor.scalar_type())));
    }
    Array view = pickle::view_of({}, element_of(*type), tensor.sizes(), tensor.strides(), tensor.const_data_ptr());
    view.requires_grad = requires_grad;
    tensors_as_arrays_ ? out_.array(view) : out_.tensor(view);
  }

  pickle::Writer& out_;
  bool tensors_as_arrays_;
  int depth_ = 0;
};

using Writer = Locked<atlas_shards::Writer>;

void write(Writer& self, py::handle example, bool tensors_as_arrays) {
  self.read([&](atlas_shards::Writer& writer) {
    pickle::Writer& pickle = writer.begin_example();
    try {
      ExampleWriter(pickle, tensors_as_arrays).write(example);
    } catch (...) {
      writer.drop_example();
      throw;
    }
    without_gil([&] { writer.end_example(); });
  });
}

void write_pickled(Writer& self, const py::bytes& pickle) {
  self.use([bytes = bytes_in(pickle)](atlas_shards::Writer& writer) {
    writer.begin_example().pickled(bytes);
    writer.end_example();
  });
}

UniqueHandle<Writer> make_writer(const Path& root, uint64_t shard_size, uint64_t block_size,
                                 std::optional<atlas_shards::Strategy> strategy, int level, double dictionary,
                                 unsigned n_threads, atp::OpenMode mode) {
  const bool creates = mode == atp::OpenMode::create;
  const atlas_shards::WriterOptions options{.shard_size = shard_size,
                                            .block_size = block_size,
                                            .strategy = strategy,
                                            .level = level,
                                            .dictionary_fraction = dictionary,
                                            .n_threads = n_threads,
                                            .existing = creates ? io::Existing::refuse : io::Existing::replace,
                                            .appends = mode == atp::OpenMode::append};
  return make_unique_handle<Writer>(root, options);
}

}  // namespace

void bind_shard_writer(py::module_& module) {
  using Native = atlas_shards::Writer;
  py::class_<Writer, UniqueHandle<Writer>>(module, "ShardFileWriter")
      .def(py::init(unlocked(&make_writer)), "root"_a, py::kw_only(), "shard_size"_a, "block_size"_a, "strategy"_a,
           "level"_a, "dictionary"_a, "n_threads"_a, "mode"_a)
      .def("write", &write, "example"_a, "tensors_as_arrays"_a)
      .def("write_pickled", &write_pickled, "pickle"_a)
      .def("copy", locked(&Native::copy), "reader"_a, "examples"_a)
      .def("close", [](Writer& self) { self.close([](Native& native) { native.close(); }); })
      .def("discard", [](Writer& self) { self.close([](Native&) {}); })
      .def_property_readonly("is_open", &Writer::is_open)
      .def("__len__", locked(&Native::size));
}

}  // namespace atompack::bindings
