#include "bindings/batch_to_python.h"
#include "bindings/bindings.h"
#include "bindings/example_reader.h"
#include "bindings/indices.h"
#include "bindings/tensor_caster.h"
#include "collate/column_batcher.h"
#include "collate/example_batcher.h"
#include "collate/indices.h"
#include "collate/molecule_batcher.h"
#include "collate/prefetcher.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_store/store.h"

namespace atompack::bindings {
namespace {

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

plan::SubsetView view_of(const Batcher& batcher, const Selection& selection) {
  return collate::subset_view(batcher.size(), selection, std::string(batcher.item()));
}

AnyBatch make(const Batcher& self, std::vector<int64_t> numbers, bool shared) {
  return without_gil([&] {
    return self.make(std::move(numbers), shared ? ArenaKind::shared : ArenaKind::heap, Parallelism::automatic);
  });
}

py::tuple collate_indices(const Batcher& self, const py::object& indices, const Selection& selection, bool shared,
                          const py::object& molecules) {
  return batch_to_python(make(self, numbers_of(view_of(self, selection), indices), shared), molecules);
}

py::tuple collate_one(const MoleculeBatcher& self, py::handle item, const Selection& selection) {
  const int64_t index = number_of(view_of(self, selection), item);
  return batch_to_python(without_gil([&] { return self.make_one(index); }));
}

UniqueHandle<Prefetcher> make_prefetcher(std::shared_ptr<Batcher> batcher, unsigned n_threads, size_t max_ready,
                                         bool pinned) {
  return make_unique_handle<Prefetcher>(std::move(batcher), n_threads, max_ready,
                                        pinned ? ArenaKind::pinned : ArenaKind::heap);
}

bool submit(Prefetcher& self, const py::object& indices, const Selection& selection) {
  return self.submit(numbers_of(view_of(self.batcher(), selection), indices));
}

py::tuple take(Prefetcher& self, const py::object& molecules) {
  return batch_to_python(take_interruptibly(self), molecules);
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
  if (!datasets.is_none()) return numbers_of(plan::SubsetView(store.size(), "dataset"), datasets);
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
  const auto held = store.find_held(dataset, array, size_t{64} << 10);
  return held ? py::cast(collate::copy_of(*held)) : py::none();
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

template <typename Held>
std::shared_ptr<Held> mutable_handle(const std::shared_ptr<const Held>& held) {
  return std::const_pointer_cast<Held>(held);
}

}  // namespace

void bind_batchers(py::module_& module) {
  py::class_<FieldTable, std::shared_ptr<FieldTable>>(module, "FieldTable", py::dynamic_attr())
      .def("fields", &field_entries);
  py::class_<Batcher, std::shared_ptr<Batcher>>(module, "Batcher")
      .def("collate", &collate_indices, "indices"_a, "selection"_a, "shared"_a, "molecules"_a = py::none());
  py::class_<Prefetcher, UniqueHandle<Prefetcher>>(module, "Prefetcher")
      .def(py::init(&make_prefetcher), "batcher"_a, "n_threads"_a, "max_ready"_a, "pinned"_a)
      .def("submit", &submit, "indices"_a, "selection"_a)
      .def("take", &take, "molecules"_a = py::none())
      .def("__len__", &Prefetcher::size);

  py::class_<MoleculeBatcher, Batcher, std::shared_ptr<MoleculeBatcher>>(module, "MoleculeBatcher")
      .def(py::init(constructor<std::shared_ptr<MoleculeBatcher>, std::shared_ptr<MoleculeSource>,
                                std::shared_ptr<Request>, std::shared_ptr<PrecomputedEdges>>()),
           "source"_a, "request"_a, "edges"_a = py::none())
      .def_property_readonly("table", [](const MoleculeBatcher& self) { return mutable_handle(self.table()); })
      .def_property_readonly("request", [](const MoleculeBatcher& self) { return mutable_handle(self.request()); })
      .def_property_readonly("source", [](const MoleculeBatcher& self) { return mutable_handle(self.source()); })
      .def("collate_one", &collate_one, "index"_a, "selection"_a);

  py::class_<ColumnBatcher, Batcher, std::shared_ptr<ColumnBatcher>>(module, "ColumnBatcher")
      .def(py::init(&make_column_batcher), "store"_a, "variables"_a, py::kw_only(), "start"_a, "count"_a, "layout"_a,
           "dtype"_a, "max_threads"_a, "max_unstored_bytes"_a, "missing"_a = Missing::nan);
  module.def("scan_columns",
             &scan<std::optional<std::vector<uint64_t>>, std::optional<std::vector<uint64_t>>, Layout,
                   std::optional<DType>, int, std::optional<uint64_t>>,
             "store"_a, "variables"_a, "datasets"_a, "names"_a, py::kw_only(), "start"_a, "count"_a, "layout"_a,
             "dtype"_a, "max_threads"_a, "max_unstored_bytes"_a);

  module.def("read_held", &read_held, "store"_a, "dataset"_a, "array"_a);

  py::class_<ExampleBatcher, Batcher, std::shared_ptr<ExampleBatcher>>(module, "ExampleBatcher")
      .def(py::init(&make_example_batcher), "reader"_a, py::kw_only(), "jagged"_a, "levels"_a, "max_threads"_a)
      .def("levels", unlocked([](const ExampleBatcher& self) {
             return std::map<std::string, bool>(self.levels().begin(), self.levels().end());
           }));
  module.def("read_example", &read_example, "reader"_a, "example"_a);
}

}  // namespace atompack::bindings
