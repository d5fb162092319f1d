#include "bindings/atlas_store.h"

#include <pybind11/stl.h>

#include <array>

#include "bindings/atlas_metadata.h"
#include "bindings/atlas_values.h"
#include "bindings/dtypes.h"
#include "bindings/errors.h"
#include "bindings/indices.h"
#include "bindings/locked.h"
#include "bindings/path.h"
#include "bindings/unlocked.h"
#include "bindings/wait_interruptibly.h"
#include "collate/columns.h"
#include "collate/prefetcher.h"
#include "formats/atlas_store/verification.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::SliceRequest;
using atlas_store::Store;
using collate::ArenaKind;
using collate::ScannedColumn;

using Prefetcher = collate::Prefetcher<collate::Scan>;

// What a data set makes of any of its rows.
class ColumnScanner {
 public:
  ColumnScanner(std::shared_ptr<const Store> store, std::vector<uint32_t> variables, SliceRequest request,
                collate::ScanOptions options)
      : store_(std::move(store)),
        variables_(std::move(variables)),
        request_(std::move(request)),
        options_(std::move(options)) {}

  int64_t size() const { return store_->n_datasets(); }

  collate::Scan scan(std::span<const int64_t> datasets, ArenaKind kind, int max_threads) const {
    std::vector<std::unique_ptr<ColumnSlice>> slices;
    std::vector<collate::ColumnPart> parts;
    for (const uint32_t variable : variables_) {
      slices.push_back(store_->slice(variable, datasets, request_));
      parts.push_back(
          {slices.back().get(), std::string(store_->metadata().variable_name(variable)), store_->type_of(variable)});
    }
    collate::ScanOptions options = options_;
    if (max_threads > 0) options.max_threads = max_threads;
    return collate::scan(parts, options, kind);
  }

 private:
  std::shared_ptr<const Store> store_;
  std::vector<uint32_t> variables_;
  SliceRequest request_;
  collate::ScanOptions options_;
};

std::shared_ptr<ColumnScanner> make_scanner(std::shared_ptr<Store> store, std::vector<uint32_t> variables,
                                            std::optional<std::vector<uint64_t>> start,
                                            std::optional<std::vector<uint64_t>> count, const std::string& layout,
                                            const std::optional<std::string>& dtype, int max_threads,
                                            std::optional<uint64_t> max_unstored_bytes) {
  for (const uint32_t variable : variables) {
    if (variable >= store->metadata().n_variables()) throw py::index_error("no such variable");
  }
  collate::ScanOptions options;
  options.layout = layout == "jagged" ? collate::Layout::jagged
                   : layout == "list" ? collate::Layout::list
                                      : collate::Layout::stacked;
  if (dtype) options.dtype = dtype_named(*dtype);
  options.max_threads = max_threads;
  return make_shared_handle<ColumnScanner>(std::move(store), std::move(variables),
                                           SliceRequest{std::move(start), std::move(count), max_unstored_bytes},
                                           options);
}

py::object texts_of(const ScannedColumn& column, collate::Layout layout) {
  py::list all;
  for (size_t i = 0; i < column.texts.size(); ++i) {
    const auto& row = column.texts[i];
    if (layout == collate::Layout::jagged) {
      if (row) all += nested_texts(*row, column.shapes[i], column.kind);
    } else {
      all.append(row ? nested_texts(*row, column.shapes[i], column.kind) : py::object(py::none()));
    }
  }
  return all;
}

// (values, offsets or None, mask): values are a tensor, or a list of tensors or texts with None for missing rows
py::tuple column_of(const ScannedColumn& column) {
  py::object values;
  if (column.kind != ColumnKind::numeric) {
    values = texts_of(column, column.offsets.defined() ? collate::Layout::jagged : collate::Layout::list);
  } else {
    values = column.values.defined() ? py::cast(column.values) : py::cast(column.list);
  }
  return py::make_tuple(values, column.offsets.defined() ? py::cast(column.offsets) : py::object(py::none()),
                        column.mask);
}

// (arena, [column])
py::tuple hand_over(const collate::Scan& scan) {
  py::list columns;
  for (const ScannedColumn& column : scan.columns) columns.append(column_of(column));
  return py::make_tuple(scan.arena, columns);
}

py::tuple scan(const ColumnScanner& self, const py::object& rows, const std::optional<at::Tensor>& selection,
               bool shared) {
  const std::vector<int64_t> numbers = Shown(self.size(), selection, "dataset").numbers(rows);
  return hand_over(without_gil([&] { return self.scan(numbers, shared ? ArenaKind::shared : ArenaKind::heap, 0); }));
}

UniqueHandle<Prefetcher> make_prefetcher(std::shared_ptr<ColumnScanner> scanner, unsigned n_threads, bool pinned) {
  const ArenaKind kind = pinned ? ArenaKind::pinned : ArenaKind::heap;
  return make_unique_handle<Prefetcher>(n_threads, [scanner = std::move(scanner), kind](auto& task) {
    task.batch = scanner->scan(task.indices, kind, 1);
  });
}

void ask(Prefetcher& self, const ColumnScanner& scanner, const py::object& rows,
         const std::optional<at::Tensor>& selection) {
  self.push({Shown(scanner.size(), selection, "dataset").numbers(rows)});
}

// (device, inode, size, seconds, nanoseconds) of the metadata file and of the record of a flush, or None
using PyFileVersion = std::optional<std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>>;
using PyVersion = std::pair<PyFileVersion, PyFileVersion>;

PyFileVersion plain(const std::optional<io::FileVersion>& version) {
  if (!version) return std::nullopt;
  return std::tuple(version->device, version->inode, version->size, version->seconds, version->nanoseconds);
}

std::optional<io::FileVersion> version_of(const PyFileVersion& plain) {
  if (!plain) return std::nullopt;
  const auto& [device, inode, size, seconds, nanoseconds] = *plain;
  return io::FileVersion{device, inode, size, seconds, nanoseconds};
}

std::shared_ptr<Store> open_store(const Path& path, const std::optional<PyVersion>& version,
                                  uint64_t max_metadata_bytes) {
  std::optional<atlas_store::Version> expected;
  if (version) expected = {version_of(version->first), version_of(version->second)};
  return make_shared_handle<Store>(path.bytes, expected, max_metadata_bytes);
}

py::tuple array_of(const Store& self, uint32_t variable, uint32_t dataset) {
  array_file::ArrayDefinition array =
      without_gil([&] { return array_file::definition_of(self.array(variable, dataset)); });
  // The metadata keeps the names that the caller gave, however many.
  const auto schema = self.metadata().schema_number(dataset, variable);
  if (schema) array.dimension_names = self.metadata().schema(*schema).dimension_names;
  return describe(array);
}

}  // namespace

void bind_atlas_store(py::module_& module) {
  py::class_<Store, std::shared_ptr<Store>> reader(module, "AtlasReader");
  bind_metadata(reader);
  reader.def(py::init(unlocked(&open_store)), py::arg("path"), py::arg("version"), py::arg("max_metadata_bytes"))
      .def_property_readonly(
          "version",
          [](const Store& self) { return PyVersion{plain(self.version().metadata), plain(self.version().intent)}; })
      .def_property_readonly("warnings", [](const Store& self) { return self.warnings(); })
      .def("array", &array_of, py::arg("variable"), py::arg("dataset"))
      .def(
          "statistics",
          [](const Store& self, uint32_t variable) {
            return statistics_object(without_gil([&] { return self.statistics(variable); }));
          },
          py::arg("variable"))
      .def("blocks", unlocked([](const Store& self, uint32_t variable, const std::vector<int64_t>& datasets) {
             return self.blocks(variable, datasets);
           }),
           py::arg("variable"), py::arg("datasets"));
  using Verification = Serial<atlas_store::Verification>;
  py::class_<Verification, UniqueHandle<Verification>>(module, "AtlasVerification")
      .def(py::init([](std::shared_ptr<Store> store) { return make_unique_handle<Verification>(std::move(store)); }),
           py::arg("store"))
      .def(
          "check",
          [](Verification& self, uint32_t variable, uint32_t dataset) {
            self.use([&](auto& verification) { verification.check(variable, dataset); });
          },
          py::arg("variable"), py::arg("dataset"));
  py::class_<ColumnScanner, std::shared_ptr<ColumnScanner>>(module, "ColumnScanner")
      .def(py::init(&make_scanner), py::arg("store"), py::arg("variables"), py::kw_only(), py::arg("start"),
           py::arg("count"), py::arg("layout"), py::arg("dtype"), py::arg("max_threads"), py::arg("max_unstored_bytes"))
      .def("scan", &scan, py::arg("datasets"), py::arg("selection"), py::arg("shared"));
  py::class_<Prefetcher, UniqueHandle<Prefetcher>>(module, "ColumnPrefetcher")
      .def(py::init(&make_prefetcher), py::arg("scanner"), py::arg("n_threads"), py::arg("pinned"))
      .def("ask", &ask, py::arg("scanner"), py::arg("datasets"), py::arg("selection"))
      .def("take", [](Prefetcher& self) { return hand_over(take_patiently(self).batch); })
      .def("__len__", &Prefetcher::size);
}

}  // namespace atompack::bindings
