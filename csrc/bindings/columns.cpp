#include "bindings/columns.h"

#include <pybind11/stl.h>

#include "bindings/atlas_values.h"
#include "bindings/choices.h"
#include "bindings/dtypes.h"
#include "bindings/indices.h"
#include "bindings/tensor_caster.h"
#include "bindings/unlocked.h"
#include "bindings/wait_interruptibly.h"
#include "collate/columns.h"
#include "collate/prefetcher.h"
#include "formats/atlas_store/store.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::SliceRequest;
using atlas_store::Store;
using collate::ArenaKind;
using collate::Layout;
using collate::ScannedColumn;

using ColumnPrefetcher = collate::Prefetcher<collate::Scan>;

// Scans variables of a store for any of its datasets.
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
  options.layout = choice<Layout>("layout", layout,
                                  {{"stacked", Layout::stacked}, {"jagged", Layout::jagged}, {"list", Layout::list}});
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
py::tuple hand_over_scan(const collate::Scan& scan) {
  py::list columns;
  for (const ScannedColumn& column : scan.columns) columns.append(column_of(column));
  return py::make_tuple(scan.arena, columns);
}

py::tuple scan_columns(const ColumnScanner& self, const py::object& rows, const std::optional<at::Tensor>& selection,
                       bool shared) {
  const std::vector<int64_t> numbers = Shown(self.size(), selection, "dataset").numbers(rows);
  return hand_over_scan(
      without_gil([&] { return self.scan(numbers, shared ? ArenaKind::shared : ArenaKind::heap, 0); }));
}

UniqueHandle<ColumnPrefetcher> make_column_prefetcher(std::shared_ptr<ColumnScanner> scanner, unsigned n_threads,
                                                      bool pinned) {
  const ArenaKind kind = pinned ? ArenaKind::pinned : ArenaKind::heap;
  return make_unique_handle<ColumnPrefetcher>(n_threads, [scanner = std::move(scanner), kind](auto& task) {
    task.batch = scanner->scan(task.indices, kind, 1);
  });
}

void ask_columns(ColumnPrefetcher& self, const ColumnScanner& scanner, const py::object& rows,
                 const std::optional<at::Tensor>& selection) {
  self.push({Shown(scanner.size(), selection, "dataset").numbers(rows)});
}

}  // namespace

void bind_columns(py::module_& module) {
  py::class_<ColumnScanner, std::shared_ptr<ColumnScanner>>(module, "ColumnScanner")
      .def(py::init(&make_scanner), py::arg("store"), py::arg("variables"), py::kw_only(), py::arg("start"),
           py::arg("count"), py::arg("layout"), py::arg("dtype"), py::arg("max_threads"), py::arg("max_unstored_bytes"))
      .def("scan", &scan_columns, py::arg("datasets"), py::arg("selection"), py::arg("shared"));
  py::class_<ColumnPrefetcher, UniqueHandle<ColumnPrefetcher>>(module, "ColumnPrefetcher")
      .def(py::init(&make_column_prefetcher), py::arg("scanner"), py::arg("n_threads"), py::arg("pinned"))
      .def("ask", &ask_columns, py::arg("scanner"), py::arg("datasets"), py::arg("selection"))
      .def("take", [](ColumnPrefetcher& self) { return hand_over_scan(take_interruptibly(self).batch); })
      .def("__len__", &ColumnPrefetcher::size);
}

}  // namespace atompack::bindings
