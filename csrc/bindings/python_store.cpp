#include "bindings/python_store.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bindings/errors.h"
#include "bindings/path.h"
#include "bindings/python_callback.h"
#include "bindings/unlocked.h"
#include "io/fetch/range_reader.h"
#include "threads/process.h"

namespace atompack::bindings {
namespace {

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
  bool is_own_process() const { return process_ == io::process_id(); }

  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::shared_ptr<PythonRequest>> waiting;
    bool is_closed = false;
  };

  const int64_t process_ = io::process_id();
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

}  // namespace

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

}  // namespace atompack::bindings
