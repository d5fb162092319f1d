#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "bindings/python_callback.h"
#include "io/fetch/cache_folder.h"
#include "io/folder.h"
#include "io/memory_store.h"
#include "io/open_file.h"

namespace atompack::bindings {
namespace {

py::tuple ends_of(const io::Store& store, const Path& url, size_t n_first, size_t n_last) {
  const auto [first, last] = without_gil([&] { return io::read_ends(*store.open(url.bytes), n_first, n_last); });
  return py::make_tuple(to_bytes(first), to_bytes(last));
}

void exchange_names(const Path& one, const Path& other) { io::exchange_names(one.bytes, other.bytes); }

bool has_file(const io::Store& store, const Path& url) { return store.version_of(url.bytes).has_value(); }

py::dict usage_of(const Path& folder) {
  const io::fetch::CacheUsage usage = without_gil([&] { return io::fetch::usage_of(folder.bytes); });
  return py::dict("bytes"_a = usage.bytes, "pages"_a = usage.pages, "files"_a = usage.files,
                  "objects"_a = usage.objects, "oldest_use"_a = usage.oldest_use, "newest_use"_a = usage.newest_use);
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
      .def("ends", &ends_of, "url"_a, "n_first"_a, "n_last"_a)
      .def("has_file", unlocked(&has_file), "url"_a);
  py::class_<io::MemoryStore, io::Store, std::shared_ptr<io::MemoryStore>>(module, "MemoryStore")
      .def(py::init(&memory_store), "files"_a);
  module.def("exchange_names", unlocked(&exchange_names), "one"_a, "other"_a);
  module.def("block_cache_usage", &usage_of, "folder"_a);
}

}  // namespace atompack::bindings
