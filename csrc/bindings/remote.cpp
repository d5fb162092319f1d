// The extension module atompack_torch._remote: objects over HTTP and S3. It is imported only when a URL is used, and
// built only where there is libcurl.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/path.h"
#include "bindings/python_callback.h"
#include "bindings/python_store.h"
#include "bindings/unlocked.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/paged_store.h"
#include "threads/process.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
namespace http = io::fetch::http;
using http::HttpStore;
using io::fetch::PagedStore;

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
  if (io::thread_id() != io::process_id() || is_python_ending()) return;
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
  options.check = &check_signals;
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

// One version of an object, for callers that wait for each range.
struct RemoteObject {
  std::string url;
  io::fetch::OpenObject opened;
};

struct Arrival {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr error;
  std::vector<std::byte> bytes;  // belongs to the request, should the caller be interrupted
};

std::shared_ptr<Arrival> read_range(const RemoteObject& object, uint64_t offset, uint64_t length) {
  const auto arrival = std::make_shared<Arrival>();
  const uint64_t size = object.opened.version.size;
  if (offset > size || length > size - offset) {
    throw std::out_of_range(cat("expected a range of ", size, " bytes, got ", length, " at ", offset));
  }
  arrival->bytes.resize(length);
  object.opened.reader->read({offset, {std::span(arrival->bytes)}}, [arrival](std::exception_ptr error) {
    const std::lock_guard lock(arrival->mutex);
    arrival->error = std::move(error);
    arrival->has_ended = true;
    arrival->ended.notify_all();
  });
  std::unique_lock lock(arrival->mutex);
  while (!arrival->ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return arrival->has_ended; })) {
    lock.unlock();
    check_signals();
    lock.lock();
  }
  if (arrival->error) std::rethrow_exception(std::exchange(arrival->error, nullptr));
  return arrival;
}

py::bytes bytes_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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
  const io::fetch::PageCacheStats memory = store.stats();
  py::dict stats;
  stats["held_bytes"] = memory.held_bytes;
  stats["requests"] = memory.requests;
  stats["fetched_bytes"] = memory.fetched_bytes;
  stats["pages_from_disk"] = memory.pages_from_disk;
  if (const auto disk = store.disk_stats()) {
    stats["disk_hits"] = disk->hits;
    stats["disk_misses"] = disk->misses;
    stats["disk_rejected"] = disk->rejected;
    stats["disk_written"] = disk->written;
    stats["disk_skipped"] = disk->skipped;
    stats["disk_stopped"] = disk->stopped;
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

  py::class_<RemoteObject, UniqueHandle<RemoteObject>>(module, "RemoteObject")
      .def_property_readonly("size", [](const RemoteObject& object) { return object.opened.version.size; })
      .def_property_readonly("etag",
                             [](const RemoteObject& object) { return str_from_bytes(object.opened.version.etag); })
      .def_property_readonly("modified",
                             [](const RemoteObject& object) { return str_from_bytes(object.opened.version.modified); })
      .def_property_readonly("first", [](const RemoteObject& object) { return bytes_of(object.opened.first); })
      .def(
          "read",
          [](const RemoteObject& object, uint64_t offset, uint64_t length) {
            return bytes_of(without_gil([&] { return read_range(object, offset, length); })->bytes);
          },
          py::arg("offset"), py::arg("length"));

  py::class_<io::fetch::ObjectStore, std::shared_ptr<io::fetch::ObjectStore>>(module, "ObjectStore")
      .def("open", unlocked([](const io::fetch::ObjectStore& store, const std::string& url, size_t n_first) {
             return make_unique_handle<RemoteObject>(RemoteObject{url, store.open(url, n_first)});
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
  atompack::io::set_interruption_check(&atompack::bindings::check_signals);
  atompack::bindings::bind_store(module);
  atompack::bindings::bind_python_store(module);
}
