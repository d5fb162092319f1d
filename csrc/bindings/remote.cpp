// The extension module atompack_torch._remote: objects over HTTP and S3. It is imported only when a URL is used, and
// built only where there is libcurl.
#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "bindings/errors.h"
#include "bindings/python_callback.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/paged_store.h"
#include "io/fetch/range_reader.h"
#include "io/fetch/request_queue.h"
#include "threads/process.h"

namespace atompack::bindings {

namespace http = io::fetch::http;
ATOMPACK_TUPLE(http::Credentials, access_key, secret_key, session_token, bearer, expiry);

namespace {

using http::HttpStore;
using io::fetch::OpenObject;
using io::fetch::OpenQueue;
using io::fetch::PagedStore;
using io::fetch::QueuedReader;
using io::fetch::QueuedRequest;
using io::fetch::RequestQueue;

// Returns size, version and first bytes.
using OpenFile = std::function<std::tuple<uint64_t, std::string, std::string>(const std::string& url, size_t n_first)>;

class PythonStore final : public io::fetch::ObjectStore {
 public:
  PythonStore(OpenFile open, std::shared_ptr<RequestQueue> queue)
      : open_(std::move(open)), queue_(std::make_shared<const OpenQueue>(std::move(queue))) {}

  OpenObject open(const std::string& url, size_t n_first) const override {
    const auto [size, version, first] = open_(url, n_first);
    const Bytes bytes = as_bytes(first);
    return {{size, version, ""}, {bytes.begin(), bytes.end()}, std::make_shared<QueuedReader>(queue_, url, version)};
  }

 private:
  OpenFile open_;
  std::shared_ptr<const OpenQueue> queue_;
};

void finish(QueuedRequest& request, const py::bytes& bytes) {
  const std::string_view view(bytes);  // `bytes` belongs to the caller
  without_gil([&] { request.finish(view); });
}

// After the base of stores of objects.
void bind_python_store(py::module_& module) {
  py::class_<QueuedRequest, std::shared_ptr<QueuedRequest>>(module, "PythonRequest")
      .def_property_readonly("url", [](const QueuedRequest& self) { return str_from_bytes(self.url()); })
      .def_property_readonly("version", [](const QueuedRequest& self) { return str_from_bytes(self.version()); })
      .def_property_readonly("offset", &QueuedRequest::offset)
      .def_property_readonly("length", &QueuedRequest::length)
      .def("finish", &finish, "data"_a)
      .def("fail", unlocked_as<void, QueuedRequest&, int, const Path&>(&QueuedRequest::fail), "code"_a, "reason"_a);
  py::class_<RequestQueue, std::shared_ptr<RequestQueue>>(module, "RequestQueue")
      .def(py::init<>())
      .def("take", unlocked(&RequestQueue::take), "n"_a)
      .def("close", unlocked(&RequestQueue::close));
  py::class_<PythonStore, io::fetch::ObjectStore, std::shared_ptr<PythonStore>>(module, "PythonStore")
      .def(py::init([](const py::object& open, std::shared_ptr<RequestQueue> queue) {
             return make_shared_handle<PythonStore>(
                 function_of<OpenFile::result_type, const std::string&, size_t>(open), std::move(queue));
           }),
           "open_file"_a, "queue"_a);
}

// Ctrl-C ends calls that block. Python handles signals in the main thread only; others, which may be daemons that still
// wait when Python ends, leave the GIL alone.
void check_signals() {
  if (threads::thread_id() != threads::process_id() || is_python_ending()) return;
  const AcquiredGil acquired;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

std::shared_ptr<HttpStore> make_store(const std::string& endpoint, const std::string& region,
                                      const py::object& credentials, const http::Headers& headers,
                                      const std::optional<Path>& ca_file, size_t max_in_flight, unsigned max_attempts) {
  http::HttpOptions options;
  options.endpoint = endpoint;
  if (!region.empty()) options.region = region;
  options.credentials = function_of<http::Credentials>(credentials);
  options.headers = headers;
  if (ca_file) options.ca_file = ca_file->bytes;
  options.max_in_flight = max_in_flight;
  options.retry.max_attempts = max_attempts;
  options.retry.max_connect_attempts = std::min(max_attempts, options.retry.max_connect_attempts);
  return make_shared_handle<HttpStore>(std::move(options));
}

http::Response send(const HttpStore& store, const std::string& method, const std::string& url, const http::Query& query,
                    const http::Headers& headers, const std::string& body,
                    const std::optional<std::tuple<Path, uint64_t, uint64_t>>& file, uint64_t max_response) {
  http::Request request{.method = method, .url = url, .query = query, .headers = headers, .body = body};
  if (file) {
    const auto& [path, offset, size] = *file;
    request.file = http::FilePart{path.bytes, offset, size};
  }
  request.max_response = max_response;
  return store.request(std::move(request));
}

// Finds the address of a URL, and its name in the block cache.
io::fetch::FindAddress finder_of(const py::object& callable) {
  const auto find = function_of<std::pair<Path, Path>, const std::string&>(callable);
  if (!find) return nullptr;
  return [find](const std::string& url) {
    const auto [address, name] = find(url);
    return io::fetch::ObjectAddress{address, name};
  };
}

std::shared_ptr<PagedStore> make_paged_store(std::shared_ptr<io::fetch::ObjectStore> objects, uint64_t memory_bytes,
                                             const std::optional<Path>& cache_folder, uint64_t cache_bytes,
                                             const py::object& list_folder, const py::object& find_address) {
  std::shared_ptr<const io::fetch::BlockCache> disk;
  if (cache_folder) disk = std::make_shared<const io::fetch::BlockCache>(cache_folder->bytes, cache_bytes);
  const auto list = function_of<std::vector<std::string>, const std::string&>(list_folder);
  return make_shared_handle<PagedStore>(std::move(objects), memory_bytes, std::move(disk), list,
                                        finder_of(find_address));
}

py::dict stats_of(const PagedStore& store) {
  const io::fetch::PageCacheStats memory = store.stats();
  py::dict stats("held_bytes"_a = memory.held_bytes, "requests"_a = memory.requests,
                 "fetched_bytes"_a = memory.fetched_bytes, "pages_from_disk"_a = memory.pages_from_disk);
  if (const auto disk = store.disk_stats()) {
    stats.attr("update")("disk_hits"_a = disk->hits, "disk_misses"_a = disk->misses, "disk_rejected"_a = disk->rejected,
                         "disk_written"_a = disk->written, "disk_skipped"_a = disk->skipped,
                         "disk_stopped"_a = disk->stopped);
  }
  return stats;
}

void bind_store(py::module_& module) {
  py::module_::import("atompack_torch._formats");  // has the base of stores
  py::class_<http::Response>(module, "RemoteResponse")
      .def_readonly("status", &http::Response::status)
      .def_property_readonly("headers",
                             [](const http::Response& response) {
                               py::list headers;
                               for (const auto& [name, value] : response.headers) {
                                 headers.append(py::make_tuple(str_from_bytes(name), str_from_bytes(value)));
                               }
                               return headers;
                             })
      .def_property_readonly("body", [](const http::Response& response) { return py::bytes(response.body); })
      .def_readonly("n_attempts", &http::Response::n_attempts)
      .def("check", &http::check_response, "url"_a);

  py::class_<OpenObject, UniqueHandle<OpenObject>>(module, "RemoteObject")
      .def_property_readonly("size", [](const OpenObject& object) { return object.version.size; })
      .def_property_readonly("etag", [](const OpenObject& object) { return str_from_bytes(object.version.etag); })
      .def_property_readonly("modified",
                             [](const OpenObject& object) { return str_from_bytes(object.version.modified); })
      .def_property_readonly("first", [](const OpenObject& object) { return to_bytes(object.first); })
      .def(
          "read",
          [](const OpenObject& object, uint64_t offset, uint64_t length) {
            return to_bytes(without_gil([&] { return io::fetch::read_range(object, offset, length); }));
          },
          "offset"_a, "length"_a);

  py::class_<io::fetch::ObjectStore, std::shared_ptr<io::fetch::ObjectStore>>(module, "ObjectStore")
      .def("open", unlocked([](const io::fetch::ObjectStore& store, const std::string& url, size_t n_first) {
             return make_unique_handle<OpenObject>(store.open(url, n_first));
           }),
           "url"_a, "n_first"_a = 65536);
  py::class_<PagedStore, io::Store, std::shared_ptr<PagedStore>>(module, "PagedStore")
      .def(py::init(&make_paged_store), "objects"_a, py::kw_only(), "memory_bytes"_a, "cache_folder"_a, "cache_bytes"_a,
           "list_folder"_a, "find_address"_a = py::none())
      .def("stats", &stats_of);

  py::class_<HttpStore, io::fetch::ObjectStore, std::shared_ptr<HttpStore>>(module, "RemoteStore")
      .def(py::init(&make_store), py::kw_only(), "endpoint"_a = "", "region"_a = "", "credentials"_a = py::none(),
           "headers"_a = http::Headers(), "ca_file"_a = py::none(),
           "max_in_flight"_a = http::HttpOptions().max_in_flight, "max_attempts"_a = http::RetryOptions().max_attempts)
      .def("request", unlocked(&send), "method"_a, "url"_a, py::kw_only(), "query"_a = http::Query(),
           "headers"_a = http::Headers(), "body"_a = py::bytes(), "file"_a = py::none(),
           "max_response"_a = http::Request().max_response);
}

}  // namespace

}  // namespace atompack::bindings

PYBIND11_MODULE(_remote, module) {
  module.doc() = "Native client for objects over HTTP; use the package, not this module.";
  atompack::bindings::bind_errors(module);
  atompack::bindings::bind_shared_errors();
  atompack::threads::set_interruption_check(&atompack::bindings::check_signals);
  atompack::bindings::bind_store(module);
  atompack::bindings::bind_python_store(module);
}
