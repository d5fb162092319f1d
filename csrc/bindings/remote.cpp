// The extension module atompack_torch._remote: objects over HTTP and S3. It is imported only when a URL is used, and
// built only where there is libcurl.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
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
#include "bindings/gil.h"
#include "bindings/path.h"
#include "bindings/python_callback.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/paged_store.h"
#include "io/fetch/range_reader.h"
#include "threads/process.h"

namespace atompack::bindings {
namespace {

// Store whose objects are read by a thread of Python.

namespace py = pybind11;
using io::fetch::Done;
using io::fetch::ObjectVersion;
using io::fetch::OpenObject;
using io::fetch::RangeRequest;

// A request that a thread of Python answers, once. One that is dropped has failed.
class PythonRequest {
 public:
  PythonRequest(std::string url, std::string version, RangeRequest request, Done done)
      : url_(std::move(url)), version_(std::move(version)), request_(std::move(request)), done_(std::move(done)) {}
  PythonRequest(const PythonRequest&) = delete;
  PythonRequest& operator=(const PythonRequest&) = delete;
  ~PythonRequest() { fail(ECANCELED, "the store was closed"); }

  const std::string& url() const { return url_; }
  const std::string& version() const { return version_; }
  uint64_t offset() const { return request_.offset; }
  uint64_t length() const { return request_.length(); }

  void finish(std::string_view bytes) {
    if (bytes.size() != length()) {
      return fail(EIO, cat("expected ", length(), " bytes at ", offset(), ", got ", bytes.size()));
    }
    const Done done = take_done();
    if (!done) return;
    for (const std::span<std::byte> part : request_.into) {
      std::memcpy(part.data(), bytes.data(), part.size());
      bytes.remove_prefix(part.size());
    }
    done(nullptr);
  }

  void fail(int code, const std::string& reason) {
    if (const Done done = take_done()) done(std::make_exception_ptr(IoError(code, reason, url_)));
  }

 private:
  Done take_done() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, nullptr);
  }

  const std::string url_, version_;
  const RangeRequest request_;
  std::mutex mutex_;
  Done done_;
};

using Requests = std::vector<std::shared_ptr<PythonRequest>>;

// Requests on their way to the thread of Python. A fork has no such thread, and leaves the queue alone: destroying it
// would wait for the thread.
class RequestQueue {
 public:
  RequestQueue() = default;
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;
  ~RequestQueue() {
    if (!is_own_process()) static_cast<void>(state_.release());
  }

  void push(std::shared_ptr<PythonRequest> request) {
    if (!is_own_process()) throw IoError(EIO, "opened before a fork: open it again in the child", request->url());
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->is_closed) state_->waiting.push_back(std::move(request));
    }
    state_->arrived.notify_one();
  }

  // Waits for requests; returns none once the queue is closed.
  Requests take(size_t max) {
    std::unique_lock lock(state_->mutex);
    auto& waiting = state_->waiting;
    state_->arrived.wait(lock, [&] { return state_->is_closed || !waiting.empty(); });
    Requests taken;
    for (; taken.size() < max && !waiting.empty(); waiting.pop_front()) taken.push_back(std::move(waiting.front()));
    return taken;
  }

  void close() {
    if (!is_own_process()) return;
    std::deque<std::shared_ptr<PythonRequest>> dropped;
    {
      const std::lock_guard lock(state_->mutex);
      state_->is_closed = true;
      dropped.swap(state_->waiting);
    }
    state_->arrived.notify_all();
  }

 private:
  bool is_own_process() const { return process_ == threads::process_id(); }

  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::shared_ptr<PythonRequest>> waiting;
    bool is_closed = false;
  };

  const int64_t process_ = threads::process_id();
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

// Closes the queue when the store and all readers are gone.
struct OpenQueue {
  explicit OpenQueue(std::shared_ptr<RequestQueue> opened) : queue(std::move(opened)) {}
  OpenQueue(const OpenQueue&) = delete;
  OpenQueue& operator=(const OpenQueue&) = delete;
  ~OpenQueue() { queue->close(); }

  std::shared_ptr<RequestQueue> queue;
};

class PythonReader final : public io::fetch::RangeReader {
 public:
  PythonReader(std::shared_ptr<const OpenQueue> queue, std::string url, std::string version)
      : queue_(std::move(queue)), url_(std::move(url)), version_(std::move(version)) {}

  void read(RangeRequest request, Done done) const override {
    queue_->queue->push(std::make_shared<PythonRequest>(url_, version_, std::move(request), std::move(done)));
  }
  size_t max_in_flight() const override { return kInFlight; }

 private:
  static constexpr size_t kInFlight = 64;

  std::shared_ptr<const OpenQueue> queue_;
  std::string url_, version_;
};

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
      opened.reader = std::make_shared<PythonReader>(queue_, url, version);
      return opened;
    });
  }

 private:
  std::shared_ptr<py::object> open_;
  std::shared_ptr<const OpenQueue> queue_;
};

void finish(PythonRequest& request, const py::bytes& bytes) {
  const std::string_view view(bytes);  // `bytes` belongs to the caller
  without_gil([&] { request.finish(view); });
}

void fail(PythonRequest& request, int code, const Path& reason) {
  without_gil([&] { request.fail(code, reason.bytes); });
}

// Python must not end while this thread asks for the GIL: the queue is closed before that.
Requests take(RequestQueue& queue, size_t max) {
  return without_gil([&] { return queue.take(max); });
}

// After the base of stores of objects.
void bind_python_store(py::module_& module) {
  py::class_<PythonRequest, std::shared_ptr<PythonRequest>>(module, "PythonRequest")
      .def_property_readonly("url", [](const PythonRequest& self) { return str_from_bytes(self.url()); })
      .def_property_readonly("version", [](const PythonRequest& self) { return str_from_bytes(self.version()); })
      .def_property_readonly("offset", &PythonRequest::offset)
      .def_property_readonly("length", &PythonRequest::length)
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
  atompack::threads::set_interruption_check(&atompack::bindings::check_signals);
  atompack::bindings::bind_store(module);
  atompack::bindings::bind_python_store(module);
}
