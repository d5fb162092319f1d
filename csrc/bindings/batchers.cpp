#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "bindings/batch_to_python.h"
#include "bindings/bindings.h"
#include "bindings/enum_casters.h"
#include "bindings/example_reader.h"
#include "bindings/gil.h"
#include "bindings/tensor_caster.h"
#include "collate/column_batcher.h"
#include "collate/example_batcher.h"
#include "collate/molecule_batcher.h"
#include "collate/prefetcher.h"
#include "collate/torch_threads.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_store/store.h"
#include "plan/random_order.h"

namespace atompack::bindings {
namespace {

// Selections of items by Python objects: indices or masks in lists, ranges, arrays and tensors of any kind.

// Items of a source that belong to a dataset: all of them, or those of a subset (contiguous int64, kept alive by the
// caller). `item` is the name of an item in error messages.
class SubsetView {
 public:
  SubsetView(int64_t size, const std::optional<at::Tensor>& selection, std::string item);

  // Returns the indices in the source of selected items. `selected` holds integers of any width, where negative ones
  // count from the end, or a mask of one bool per item. Raises IndexError for integers out of range and masks of
  // a different length, TypeError for everything else.
  std::vector<int64_t> numbers(const pybind11::object& selected) const;
  int64_t number(pybind11::handle item) const;

 private:
  using Numbers = std::vector<int64_t>;

  int64_t in_source(int64_t place) const { return numbers_ == nullptr ? place : numbers_[place]; }
  int64_t checked(int64_t index) const;
  int64_t checked_long(PyObject* number) const;
  [[noreturn]] void refuse_number(const std::string& number) const;
  void check_mask(int64_t length) const;

  template <typename Integer>
  void add_numbers(const Integer* first, int64_t n, Numbers& all) const;
  void add_mask(const bool* first, int64_t n, Numbers& all) const;
  void add_integers(const at::Tensor& tensor, Numbers& all) const;

  Numbers of_tensor(const at::Tensor& tensor) const;
  Numbers of_array(const pybind11::object& array) const;
  Numbers of_sequence(pybind11::handle sequence) const;

  int64_t size_;
  const int64_t* numbers_ = nullptr;
  std::string item_;
};

namespace py = pybind11;

[[noreturn]] void refuse(const std::string& got) { throw py::type_error(cat("indices: expected integers, got ", got)); }

[[noreturn]] void refuse_mixture() { refuse("a list of bools and numbers (a mask holds bools alone)"); }

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

std::string shape_of(const at::Tensor& tensor) { return cat("shape ", tensor.sizes()); }

// Refuses tensors without plain values in memory.
void check_memory(const at::Tensor& tensor) {
  if (tensor.is_nested()) refuse("a nested tensor");
  if (tensor.layout() != at::kStrided) refuse(cat("a tensor of layout ", tensor.layout()));
  if (tensor.is_quantized()) refuse("a quantized tensor");
  if (tensor.is_meta()) refuse("a meta tensor, which has no values");
  if (!tensor.has_storage() || tensor.unsafeGetTensorImpl()->is_python_dispatch()) {
    refuse("a tensor without values of its own");
  }
}

// Returns the tensor, contiguous on the CPU.
at::Tensor in_host_memory(const at::Tensor& tensor) {
  const at::Tensor on_cpu = tensor.is_cpu() ? tensor : without_gil([&] { return tensor.to(at::kCPU); });
  return on_cpu.resolve_neg().contiguous();
}

bool is_numpy_bool(py::handle item) {
  static auto& type = *new py::object;  // never destroyed: the interpreter may have ended before
  if (!type) type = py::module_::import("numpy").attr("bool_");
  return reinterpret_cast<PyObject*>(Py_TYPE(item.ptr())) == type.ptr();
}

// Returns the value of a bool of Python, NumPy or torch; nullopt for other objects.
std::optional<bool> flag_of(py::handle item) {
  if (PyBool_Check(item.ptr())) return item.ptr() == Py_True;
  if (is_numpy_bool(item)) return PyObject_IsTrue(item.ptr()) == 1;
  if (!is_tensor(item)) return std::nullopt;
  const at::Tensor& tensor = as_tensor(item);
  if (tensor.scalar_type() != at::kBool) return std::nullopt;
  check_memory(tensor);
  if (tensor.dim() != 0) refuse(cat("a tensor of ", shape_of(tensor), " in a list"));
  return *in_host_memory(tensor).const_data_ptr<bool>();
}

py::object resolve(const py::object& indices, int64_t size, const std::optional<at::Tensor>& selection,
                   const std::string& item) {
  const std::vector<int64_t> numbers = SubsetView(size, selection, item).numbers(indices);
  const at::Tensor tensor = at::empty({std::ssize(numbers)}, at::TensorOptions(at::kLong));
  std::ranges::copy(numbers, tensor.mutable_data_ptr<int64_t>());
  return py::cast(tensor);
}

int64_t resolve_one(py::handle index, int64_t size, const std::optional<at::Tensor>& selection,
                    const std::string& item) {
  return SubsetView(size, selection, item).number(index);
}

// Throws InternalError unless the selection of a subset is contiguous int64 on the CPU.
void check_selection(const at::Tensor& selection) {
  if (!selection.is_cpu() || selection.scalar_type() != at::kLong || selection.dim() != 1 ||
      !selection.is_contiguous() || selection.is_neg()) {
    throw InternalError("a selection is not contiguous int64 on the CPU");
  }
}

SubsetView::SubsetView(int64_t size, const std::optional<at::Tensor>& selection, std::string item)
    : size_(size), item_(std::move(item)) {
  if (!selection) return;
  check_selection(*selection);
  size_ = selection->numel();
  numbers_ = selection->const_data_ptr<int64_t>();
}

void SubsetView::refuse_number(const std::string& number) const {
  throw py::index_error(cat(item_, " ", number, " is out of range for a dataset of ", size_));
}

int64_t SubsetView::checked(int64_t index) const {
  if (index < -size_ || index >= size_) refuse_number(std::to_string(index));
  return in_source(index < 0 ? index + size_ : index);
}

int64_t SubsetView::checked_long(PyObject* number) const {
  int overflow = 0;
  const long long index = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) refuse_number("of more than 64 bits");
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return checked(index);
}

void SubsetView::check_mask(int64_t length) const {
  if (length == size_) return;
  throw py::index_error(cat("indices: expected a mask of ", size_, " bools, one for each ", item_, ", got ", length));
}

template <typename Integer>
void SubsetView::add_numbers(const Integer* first, int64_t n, Numbers& all) const {
  all.reserve(all.size() + static_cast<size_t>(n));
  for (const Integer* index = first; index != first + n; ++index) {
    if constexpr (std::is_same_v<Integer, uint64_t>) {
      if (*index > std::numeric_limits<int64_t>::max()) refuse_number(std::to_string(*index));
    }
    all.push_back(checked(static_cast<int64_t>(*index)));
  }
}

void SubsetView::add_mask(const bool* first, int64_t n, Numbers& all) const {
  check_mask(n);
  for (int64_t place = 0; place < n; ++place) {
    if (first[place]) all.push_back(in_source(place));
  }
}

void SubsetView::add_integers(const at::Tensor& tensor, Numbers& all) const {
  const at::Tensor host = in_host_memory(tensor);
  const auto add = [&]<typename Integer>(const Integer* first) { add_numbers(first, host.numel(), all); };
  switch (host.scalar_type()) {
    case at::kLong:
      return add(host.const_data_ptr<int64_t>());
    case at::kInt:
      return add(host.const_data_ptr<int32_t>());
    case at::kShort:
      return add(host.const_data_ptr<int16_t>());
    case at::kChar:
      return add(host.const_data_ptr<int8_t>());
    case at::kByte:
      return add(host.const_data_ptr<uint8_t>());
    case at::kUInt16:
      return add(host.const_data_ptr<uint16_t>());
    case at::kUInt32:
      return add(host.const_data_ptr<uint32_t>());
    case at::kUInt64:
      return add(host.const_data_ptr<uint64_t>());
    default:
      refuse(cat("a tensor of ", c10::toString(host.scalar_type())));
  }
}

int64_t SubsetView::number(py::handle item) const {
  if (PyLong_CheckExact(item.ptr())) return checked_long(item.ptr());
  if (flag_of(item)) refuse("a bool (a mask is a list or tensor of them)");
  if (is_tensor(item)) {
    const at::Tensor& tensor = as_tensor(item);
    check_memory(tensor);
    if (tensor.dim() != 0) refuse(cat("a tensor of ", shape_of(tensor), " instead of a number"));
    Numbers found;
    add_integers(tensor, found);
    return found.front();
  }
  if (PyIndex_Check(item.ptr()) == 0) refuse(type_name(item));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!number) throw py::error_already_set();
  return checked_long(number.ptr());
}

std::vector<int64_t> SubsetView::of_tensor(const at::Tensor& tensor) const {
  check_memory(tensor);
  if (tensor.dim() != 1) refuse(cat("a tensor of ", shape_of(tensor), " (one dimension is)"));
  Numbers all;
  if (tensor.scalar_type() == at::kBool) {
    const at::Tensor host = in_host_memory(tensor);
    add_mask(host.const_data_ptr<bool>(), host.numel(), all);
  } else if (tensor.numel() != 0) {  // torch.tensor([]) holds floats
    add_integers(tensor, all);
  }
  return all;
}

std::vector<int64_t> SubsetView::of_array(const py::object& given) const {
  const auto array = py::reinterpret_borrow<py::array>(given);
  const char kind = array.dtype().kind();
  if (py::hasattr(array, "filled")) refuse("a masked array");
  if (array.ndim() != 1) refuse(cat("an array of ", array.ndim(), " dimensions (one is)"));
  Numbers all;
  if (kind == 'b') {
    const auto flags = py::array_t < bool, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!flags) throw py::error_already_set();
    add_mask(flags.data(), flags.size(), all);
  } else if (kind == 'u') {
    const auto numbers = py::array_t < uint64_t, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!numbers) throw py::error_already_set();
    add_numbers(numbers.data(), numbers.size(), all);
  } else if (kind == 'i') {
    const auto numbers = py::array_t < int64_t, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!numbers) throw py::error_already_set();
    add_numbers(numbers.data(), numbers.size(), all);
  } else if (kind == 'O') {
    return of_sequence(array);
  } else if (array.size() != 0) {  // np.array([]) holds floats
    refuse(py::str(array.dtype()).cast<std::string>());
  }
  return all;
}

std::vector<int64_t> SubsetView::of_sequence(py::handle sequence) const {
  PyObject* const object = sequence.ptr();
  const bool is_string = PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object);
  if (is_string || PySequence_Check(object) == 0) refuse(type_name(sequence));
  Numbers all;
  if (PyList_Check(object) || PyTuple_Check(object)) all.reserve(static_cast<size_t>(PySequence_Size(object)));
  const auto iterator = py::reinterpret_steal<py::object>(PyObject_GetIter(object));
  if (!iterator) throw py::error_already_set();
  bool is_mask = false;
  int64_t place = 0;
  while (const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()))) {
    const bool is_number = PyLong_CheckExact(item.ptr());
    const std::optional<bool> flag = is_number ? std::nullopt : flag_of(item);
    if (place == 0) is_mask = flag.has_value();
    if (is_mask != flag.has_value()) refuse_mixture();
    if (!flag) {
      all.push_back(is_number ? checked_long(item.ptr()) : number(item));
    } else if (*flag && place < size_) {
      all.push_back(in_source(place));
    }
    ++place;
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (is_mask) check_mask(place);
  return all;
}

std::vector<int64_t> SubsetView::numbers(const py::object& selected) const {
  if (PyList_Check(selected.ptr()) || PyTuple_Check(selected.ptr())) return of_sequence(selected);
  if (is_tensor(selected)) return of_tensor(as_tensor(selected));
  if (py::isinstance<py::array>(selected)) return of_array(selected);
  // Columns of data frames are indexed by label; their arrays are indexed by position.
  if (py::hasattr(selected, "__array__")) {
    return of_array(py::module_::import("numpy").attr("asarray")(selected));
  }
  return of_sequence(selected);
}

using atlas_store::Store;
using collate::AnyBatch;
using collate::ArenaKind;
using collate::Batcher;
using collate::ColumnBatcher;
using collate::ExampleBatcher;
using collate::MoleculeBatcher;
using collate::Parallelism;
using collate::Prefetcher;
using plan::FieldTable;
using plan::Layout;
using plan::Missing;
using plan::PrecomputedEdges;
using plan::Request;

using Selection = std::optional<at::Tensor>;

SubsetView view_of(const Batcher& batcher, const Selection& selection) {
  return {batcher.size(), selection, std::string(batcher.item())};
}

AnyBatch make(const Batcher& self, std::vector<int64_t> numbers, bool shared) {
  return without_gil([&] {
    return self.make(std::move(numbers), shared ? ArenaKind::shared : ArenaKind::heap, Parallelism::automatic);
  });
}

py::tuple collate_indices(const Batcher& self, const py::object& indices, const Selection& selection, bool shared,
                          const py::object& molecules) {
  return batch_to_python(make(self, view_of(self, selection).numbers(indices), shared), molecules);
}

py::tuple collate_one(const MoleculeBatcher& self, py::handle item, const Selection& selection) {
  const int64_t index = view_of(self, selection).number(item);
  return batch_to_python(without_gil([&] { return self.make_one(index); }));
}

UniqueHandle<Prefetcher> make_prefetcher(std::shared_ptr<Batcher> batcher, unsigned n_threads, size_t max_ready,
                                         bool pinned) {
  return make_unique_handle<Prefetcher>(std::move(batcher), n_threads, max_ready,
                                        pinned ? ArenaKind::pinned : ArenaKind::heap);
}

bool submit(Prefetcher& self, const py::object& indices, const Selection& selection) {
  return self.submit(view_of(self.batcher(), selection).numbers(indices));
}

py::tuple take(Prefetcher& self, const py::object& molecules) {
  return batch_to_python(take_interruptibly(self), molecules);
}

std::shared_ptr<MoleculeBatcher> make_molecule_batcher(std::shared_ptr<MoleculeSource> source,
                                                       std::shared_ptr<Request> request,
                                                       std::shared_ptr<PrecomputedEdges> edges) {
  return make_shared_handle<MoleculeBatcher>(std::move(source), std::move(request), std::move(edges));
}

std::shared_ptr<ColumnBatcher> make_column_batcher(std::shared_ptr<Store> store, std::vector<uint32_t> variables,
                                                   std::optional<std::vector<uint64_t>> start,
                                                   std::optional<std::vector<uint64_t>> count, Layout layout,
                                                   std::optional<DType> dtype, int max_threads,
                                                   std::optional<uint64_t> max_unstored_bytes, Missing missing) {
  return make_shared_handle<ColumnBatcher>(
      std::move(store), std::move(variables), SliceRequest{std::move(start), std::move(count), max_unstored_bytes},
      collate::ScanOptions{.layout = layout, .dtype = dtype, .max_threads = max_threads, .missing = missing});
}

// Returns the numbers of datasets given by names, indices or a mask; of all datasets if nothing is given.
std::vector<int64_t> datasets_of(const Store& store, const py::object& datasets,
                                 const std::optional<std::vector<std::string>>& names) {
  std::vector<int64_t> numbers;
  if (names) {
    for (const std::string& name : *names) numbers.push_back(store.find_dataset(name));
    return numbers;
  }
  if (!datasets.is_none()) return SubsetView(store.size(), std::nullopt, "dataset").numbers(datasets);
  numbers.resize(static_cast<size_t>(store.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Makes a batcher of columns for a single batch and returns that batch.
template <typename... Options>
py::tuple scan(std::shared_ptr<Store> store, std::vector<uint32_t> variables, const py::object& datasets,
               const std::optional<std::vector<std::string>>& names, Options... options) {
  std::vector<int64_t> numbers = datasets_of(*store, datasets, names);
  const auto batcher = make_column_batcher(std::move(store), std::move(variables), std::move(options)..., Missing::nan);
  return batch_to_python(make(*batcher, std::move(numbers), false));
}

// Returns None unless a small array of numbers needs neither reading nor decoding; the GIL is kept, since releasing it
// would take longer than the copy.
py::object read_held(const Store& store, std::string_view dataset, std::string_view array) {
  constexpr size_t kMaxBytes = size_t{64} << 10;
  const auto variable = store.metadata().find_variable(array);
  const auto number = store.metadata().find_dataset(dataset);
  if (!variable || !number) return py::none();
  const auto held = store.find_held(*variable, *number);
  if (!held || held->values.size() > kMaxBytes) return py::none();
  return py::cast(collate::copy_of(*held));
}

std::shared_ptr<ExampleBatcher> make_example_batcher(std::shared_ptr<atlas_shards::Reader> reader, bool jagged,
                                                     const std::map<std::string, bool>& levels, int max_threads) {
  collate::ExampleOptions options{.jagged = jagged, .levels = {}, .max_threads = max_threads};
  options.levels.insert(levels.begin(), levels.end());
  return make_shared_handle<ExampleBatcher>(std::make_shared<atlas_shards::ShardSource>(std::move(reader)),
                                            std::move(options));
}

py::object read_example(const atlas_shards::Reader& reader, uint64_t example) {
  const atlas_shards::Place place = reader.locate(example);
  const auto block = without_gil([&] { return reader.block(place.shard, place.block); });
  return to_python(block->example(place.position));
}

using Positions = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

py::array_t<int64_t> order_at(const plan::RandomOrder& order, const Positions& positions) {
  py::array_t<int64_t> numbers(positions.size());
  const std::span from(positions.data(), static_cast<size_t>(positions.size()));
  const std::span to(numbers.mutable_data(), from.size());
  without_gil([&] { order.at(from, to, static_cast<unsigned>(collate::usable_threads(0))); });
  return numbers;
}

py::array_t<int64_t> order_between(const plan::RandomOrder& order, int64_t first, int64_t last) {
  py::array_t<int64_t> numbers(std::max<int64_t>(last - first, 0));
  const std::span to(numbers.mutable_data(), static_cast<size_t>(numbers.size()));
  without_gil([&] { order.from(first, to, static_cast<unsigned>(collate::usable_threads(0))); });
  return numbers;
}

template <typename Held>
std::shared_ptr<Held> mutable_handle(const std::shared_ptr<const Held>& held) {
  return std::const_pointer_cast<Held>(held);
}

}  // namespace

void bind_indices(py::module_& module) {
  py::class_<plan::RandomOrder>(module, "NativeOrder")
      .def(py::init<uint64_t, uint64_t, uint64_t, const plan::RandomOrder::Keys&>(), py::arg("n"), py::arg("n_left"),
           py::arg("n_right"), py::arg("keys"))
      .def("at", &order_at, py::arg("positions"))
      .def("between", &order_between, py::arg("first"), py::arg("last"));
  module.def("resolve_indices", &resolve, py::arg("indices"), py::arg("size"), py::arg("selection"), py::arg("item"));
  module.def("resolve_index", &resolve_one, py::arg("index"), py::arg("size"), py::arg("selection"), py::arg("item"));
}

void bind_batchers(py::module_& module) {
  py::class_<FieldTable, std::shared_ptr<FieldTable>>(module, "FieldTable", py::dynamic_attr())
      .def("fields", &field_entries);
  py::class_<Batcher, std::shared_ptr<Batcher>>(module, "Batcher")
      .def("collate", &collate_indices, py::arg("indices"), py::arg("selection"), py::arg("shared"),
           py::arg("molecules") = py::none());
  py::class_<Prefetcher, UniqueHandle<Prefetcher>>(module, "Prefetcher")
      .def(py::init(&make_prefetcher), py::arg("batcher"), py::arg("n_threads"), py::arg("max_ready"),
           py::arg("pinned"))
      .def("submit", &submit, py::arg("indices"), py::arg("selection"))
      .def("take", &take, py::arg("molecules") = py::none())
      .def("__len__", &Prefetcher::size);

  py::class_<MoleculeBatcher, Batcher, std::shared_ptr<MoleculeBatcher>>(module, "MoleculeBatcher")
      .def(py::init(unlocked(&make_molecule_batcher)), py::arg("source"), py::arg("request"),
           py::arg("edges") = py::none())
      .def_property_readonly("table", [](const MoleculeBatcher& self) { return mutable_handle(self.table()); })
      .def_property_readonly("request", [](const MoleculeBatcher& self) { return mutable_handle(self.request()); })
      .def_property_readonly("source", [](const MoleculeBatcher& self) { return mutable_handle(self.source()); })
      .def("collate_one", &collate_one, py::arg("index"), py::arg("selection"));

  py::class_<ColumnBatcher, Batcher, std::shared_ptr<ColumnBatcher>>(module, "ColumnBatcher")
      .def(py::init(&make_column_batcher), py::arg("store"), py::arg("variables"), py::kw_only(), py::arg("start"),
           py::arg("count"), py::arg("layout"), py::arg("dtype"), py::arg("max_threads"), py::arg("max_unstored_bytes"),
           py::arg("missing") = Missing::nan);
  module.def("scan_columns",
             &scan<std::optional<std::vector<uint64_t>>, std::optional<std::vector<uint64_t>>, Layout,
                   std::optional<DType>, int, std::optional<uint64_t>>,
             py::arg("store"), py::arg("variables"), py::arg("datasets"), py::arg("names"), py::kw_only(),
             py::arg("start"), py::arg("count"), py::arg("layout"), py::arg("dtype"), py::arg("max_threads"),
             py::arg("max_unstored_bytes"));

  module.def("read_held", &read_held, py::arg("store"), py::arg("dataset"), py::arg("array"));

  py::class_<ExampleBatcher, Batcher, std::shared_ptr<ExampleBatcher>>(module, "ExampleBatcher")
      .def(py::init(&make_example_batcher), py::arg("reader"), py::kw_only(), py::arg("jagged"), py::arg("levels"),
           py::arg("max_threads"))
      .def("levels", unlocked([](const ExampleBatcher& self) {
             return std::map<std::string, bool>(self.levels().begin(), self.levels().end());
           }));
  module.def("read_example", &read_example, py::arg("reader"), py::arg("example"));
}

}  // namespace atompack::bindings
