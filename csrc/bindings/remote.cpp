// The extension module atompack_torch._remote: objects over HTTP and S3. It is imported only when a URL is used, and
// built only where there is libcurl.
#include <pybind11/functional.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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
namespace {

namespace http = io::fetch::http;
using http::HttpStore;
using io::fetch::OpenObject;
using io::fetch::OpenQueue;
using io::fetch::PagedStore;
using io::fetch::QueuedReader;
using io::fetch::QueuedRequest;
using io::fetch::RequestQueue;

// `open` of Python takes a URL and a number of bytes, and returns size, version and first bytes.
class PythonStore final : public io::fetch::ObjectStore {
 public:
  PythonStore(const py::object& open, std::shared_ptr<RequestQueue> queue)
      : open_(shared_object(open)), queue_(std::make_shared<const OpenQueue>(std::move(queue))) {}

  OpenObject open(const std::string& url, size_t n_first) const override {
    return with_gil([&] {
      const auto [size, version, first] =
          (*open_)(str_from_bytes(url), n_first).cast<std::tuple<uint64_t, std::string, std::string>>();
      OpenObject opened;
      opened.version = {size, version, ""};
      const auto bytes = std::as_bytes(std::span(first));
      opened.first.assign(bytes.begin(), bytes.end());
      opened.reader = std::make_shared<QueuedReader>(queue_, url, version);
      return opened;
    });
  }

 private:
  std::shared_ptr<py::object> open_;
  std::shared_ptr<const OpenQueue> queue_;
};

void finish(QueuedRequest& request, const py::bytes& bytes) {
  const std::string_view view(bytes);  // `bytes` belongs to the caller
  without_gil([&] { request.finish(view); });
}

void fail(QueuedRequest& request, int code, const Path& reason) {
  without_gil([&] { request.fail(code, reason.bytes); });
}

// Python must not end while this thread asks for the GIL: the queue is closed before that.
RequestQueue::Requests take(RequestQueue& queue, size_t max) {
  return without_gil([&] { return queue.take(max); });
}

// After the base of stores of objects.
void bind_python_store(py::module_& module) {
  py::class_<QueuedRequest, std::shared_ptr<QueuedRequest>>(module, "PythonRequest")
      .def_property_readonly("url", [](const QueuedRequest& self) { return str_from_bytes(self.url()); })
      .def_property_readonly("version", [](const QueuedRequest& self) { return str_from_bytes(self.version()); })
      .def_property_readonly("offset", &QueuedRequest::offset)
      .def_property_readonly("length", &QueuedRequest::length)
      .def("finish", &finish, py::arg("data"))
      .def("fail", &fail, py::arg("code"), py::arg("reason"));
  py::class_<RequestQueue, std::shared_ptr<RequestQueue>>(module, "RequestQueue")
      .def(py::init<>())
      .def("take", &take, py::arg("n"))
      .def("close", unlocked(&RequestQueue::close));
  py::class_<PythonStore, io::fetch::ObjectStore, std::shared_ptr<PythonStore>>(module, "PythonStore")
      .def(py::init([](const py::object& open, std::shared_ptr<RequestQueue> queue) {
             return make_shared_handle<PythonStore>(open, std::move(queue));
           }),
           py::arg("open_file"), py::arg("queue"));
}

// access key, secret key, session token, bearer token, expiry in seconds since 1970
using CredentialsTuple = std::tuple<std::string, std::string, std::string, std::string, std::optional<double>>;

http::CredentialsProvider provider_of(const py::object& callable) {
  if (callable.is_none()) return nullptr;
  return [shared = shared_object(callable)] {
    return with_gil([&] {
      const auto [access_key, secret_key, session_token, bearer, expiry] = (*shared)().cast<CredentialsTuple>();
      http::Credentials credentials{access_key, secret_key, session_token, bearer, std::nullopt};
      if (expiry) {
        const auto since_epoch = std::chrono::duration<double>(*expiry);
        credentials.expiry = std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch));
      }
      return credentials;
    });
  };
}

// Ctrl-C ends calls that block. Python handles signals in the main thread only; others, which may be daemons that still
// wait when Python ends, leave the GIL alone.
void check_signals() {
  if (threads::thread_id() != threads::process_id() || is_python_ending()) return;
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

http::milliseconds milliseconds_of(double seconds, const char* name) {
  if (!(seconds > 0 && seconds < 1e6)) {
    throw std::invalid_argument(cat(name, ": expected a positive number of seconds, got ", seconds));
  }
  return http::milliseconds(static_cast<int64_t>(seconds * 1000) + 1);
}

std::shared_ptr<HttpStore> make_store(const std::string& endpoint, const std::string& region,
                                      const py::object& credentials, const http::Headers& headers,
                                      const std::optional<Path>& ca_file, size_t max_in_flight, double connect_timeout,
                                      double stall_timeout, unsigned max_attempts) {
  http::HttpOptions options;
  options.endpoint = endpoint;
  if (!region.empty()) options.region = region;
  options.credentials = provider_of(credentials);
  options.headers = headers;
  if (ca_file) options.ca_file = ca_file->bytes;
  options.max_in_flight = max_in_flight;
  options.connect_timeout = milliseconds_of(connect_timeout, "connect_timeout");
  options.stall_timeout = milliseconds_of(stall_timeout, "stall_timeout");
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

// Calls Python to list a folder.
io::fetch::ListFolder lister_of(const py::object& callable) {
  return [shared = shared_object(callable)](const std::string& url) {
    return with_gil([&] { return (*shared)(str_from_bytes(url)).cast<std::vector<std::string>>(); });
  };
}

// Calls Python to find the address of a URL, and its name in the block cache.
io::fetch::FindAddress finder_of(const py::object& callable) {
  if (callable.is_none()) return nullptr;
  return [shared = shared_object(callable)](const std::string& url) {
    return with_gil([&] {
      const auto [address, name] = (*shared)(str_from_bytes(url)).cast<std::pair<Path, Path>>();
      return io::fetch::ObjectAddress{address.bytes, name.bytes};
    });
  };
}

std::shared_ptr<PagedStore> make_paged_store(std::shared_ptr<io::fetch::ObjectStore> objects, uint64_t memory_bytes,
                                             const std::optional<Path>& cache_folder, uint64_t cache_bytes,
                                             const py::object& list_folder, const py::object& find_address) {
  std::shared_ptr<const io::fetch::BlockCache> disk;
  if (cache_folder) disk = std::make_shared<const io::fetch::BlockCache>(cache_folder->bytes, cache_bytes);
  return make_shared_handle<PagedStore>(std::move(objects), memory_bytes, std::move(disk), lister_of(list_folder),
                                        finder_of(find_address));
}

py::dict stats_of(const PagedStore& store) {
  using namespace py::literals;
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
      .def("check", &http::check_response, py::arg("url"));

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
          py::arg("offset"), py::arg("length"));

  py::class_<io::fetch::ObjectStore, std::shared_ptr<io::fetch::ObjectStore>>(module, "ObjectStore")
      .def("open", unlocked([](const io::fetch::ObjectStore& store, const std::string& url, size_t n_first) {
             return make_unique_handle<OpenObject>(store.open(url, n_first));
           }),
           py::arg("url"), py::arg("n_first") = 65536);
  py::class_<PagedStore, io::Store, std::shared_ptr<PagedStore>>(module, "PagedStore")
      .def(py::init(&make_paged_store), py::arg("objects"), py::kw_only(), py::arg("memory_bytes"),
           py::arg("cache_folder"), py::arg("cache_bytes"), py::arg("list_folder"),
           py::arg("find_address") = py::none())
      .def("stats", &stats_of);

  py::class_<HttpStore, io::fetch::ObjectStore, std::shared_ptr<HttpStore>>(module, "RemoteStore")
      .def(py::init(&make_store), py::kw_only(), py::arg("endpoint") = "", py::arg("region") = "",
           py::arg("credentials") = py::none(), py::arg("headers") = http::Headers(), py::arg("ca_file") = py::none(),
           py::arg("max_in_flight") = http::HttpOptions().max_in_flight, py::arg("connect_timeout") = 10.0,
           py::arg("stall_timeout") = 20.0, py::arg("max_attempts") = http::RetryOptions().max_attempts)
      .def("request", unlocked(&send), py::arg("method"), py::arg("url"), py::kw_only(),
           py::arg("query") = http::Query(), py::arg("headers") = http::Headers(), py::arg("body") = py::bytes(),
           py::arg("file") = py::none(), py::arg("max_response") = http::Request().max_response);
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
