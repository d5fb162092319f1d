#include <pybind11/pybind11.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "bindings/python_callback.h"
#include "io/fetch/cache_folder.h"
#include "io/folder.h"
#include "io/memory_store.h"
#include "io/open_file.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

using Ends = std::pair<std::vector<std::byte>, std::vector<std::byte>>;

Ends read_ends(const io::Store& store, const std::string& url, size_t n_first, size_t n_last) {
  const auto file = store.open(url);
  const auto read = [&](uint64_t offset, uint64_t n) {
    std::vector<std::byte> bytes(n);
    bytes.resize(file->read_at(offset, bytes));
    return bytes;
  };
  const uint64_t size = file->size();
  const uint64_t n_end = std::min<uint64_t>(n_last, size);
  return {read(0, std::min<uint64_t>(n_first, size)), read(size - n_end, n_end)};
}

py::bytes bytes_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

py::tuple ends_of(const io::Store& store, const Path& url, size_t n_first, size_t n_last) {
  const Ends ends = without_gil([&] { return read_ends(store, url.bytes, n_first, n_last); });
  return py::make_tuple(bytes_of(ends.first), bytes_of(ends.second));
}

bool has_file(const io::Store& store, const Path& url) { return store.version_of(url.bytes).has_value(); }

py::object seconds_of(const std::optional<int64_t>& time) { return time ? py::object(py::int_(*time)) : py::none(); }

py::dict usage_of(const Path& folder) {
  const io::fetch::CacheUsage usage = without_gil([&] { return io::fetch::usage_of(folder.bytes); });
  py::dict plain;
  plain["bytes"] = usage.bytes;
  plain["pages"] = usage.pages;
  plain["files"] = usage.files;
  plain["objects"] = usage.objects;
  plain["oldest_use"] = seconds_of(usage.oldest_use);
  plain["newest_use"] = seconds_of(usage.newest_use);
  return plain;
}

// A view that keeps the buffer of `object` exported, so that it can be neither freed nor resized.
io::OwnedBytes owned_bytes(py::handle object) {
  const py::memoryview view(py::reinterpret_borrow<py::object>(object));
  const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(view.ptr());
  if (PyBuffer_IsContiguous(&buffer, 'C') == 0) throw py::buffer_error("expected contiguous bytes");
  const Bytes bytes(static_cast<const std::byte*>(buffer.buf), static_cast<size_t>(buffer.len));
  return {bytes, shared_object(view)};
}

std::shared_ptr<io::MemoryStore> memory_store(const py::dict& buffers) {
  std::map<std::string, io::OwnedBytes> files;
  for (const auto& [name, buffer] : buffers) files[name.cast<Path>().bytes] = owned_bytes(buffer);
  return make_shared_handle<io::MemoryStore>(std::move(files));
}

}  // namespace

void bind_file_store(py::module_& module) {
  py::class_<io::Store, std::shared_ptr<io::Store>>(module, "FileStore")
      .def("ends", &ends_of, py::arg("url"), py::arg("n_first"), py::arg("n_last"))
      .def("has_file", unlocked(&has_file), py::arg("url"));
  py::class_<io::MemoryStore, io::Store, std::shared_ptr<io::MemoryStore>>(module, "MemoryStore")
      .def(py::init(&memory_store), py::arg("files"));
  module.def(
      "exchange_names",
      [](const Path& one, const Path& other) { without_gil([&] { io::exchange_names(one.bytes, other.bytes); }); },
      py::arg("one"), py::arg("other"));
  module.def("block_cache_usage", &usage_of, py::arg("folder"));
}

}  // namespace atompack::bindings
