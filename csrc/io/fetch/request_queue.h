// Objects whose ranges are read by a thread of the caller's, such as one of Python.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "io/fetch/range_reader.h"
#include "threads/process.h"

namespace atompack::io::fetch {

// A request that the thread answers, once. One that is dropped has failed. Thread-safe.
class QueuedRequest {
 public:
  QueuedRequest(std::string url, std::string version, RangeRequest request, Done done)
      : url_(std::move(url)), version_(std::move(version)), request_(std::move(request)), done_(std::move(done)) {}
  ~QueuedRequest();

  const std::string& url() const { return url_; }
  const std::string& version() const { return version_; }
  uint64_t offset() const { return request_.offset; }
  uint64_t length() const { return request_.length(); }

  // Another length than that of the request is a failure (EIO).
  void finish(std::string_view bytes);
  void fail(int code, const std::string& reason);

 private:
  Done take_done();

  const std::string url_, version_;
  const RangeRequest request_;
  std::mutex mutex_;
  Done done_;
};

// Requests on their way to the thread. A fork has no such thread, and leaves the queue alone: destroying it would wait
// for the thread. Thread-safe.
class RequestQueue {
 public:
  using Requests = std::vector<std::shared_ptr<QueuedRequest>>;

  ~RequestQueue();

  // Throws IoError in a fork. Once the queue is closed the request fails.
  void push(std::shared_ptr<QueuedRequest> request);
  // Waits for requests; returns none once the queue is closed.
  Requests take(size_t max);
  // Requests that were not taken fail.
  void close();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::shared_ptr<QueuedRequest>> waiting;
    bool is_closed = false;
  };

  bool is_own_process() const { return process_ == threads::process_id(); }

  const int64_t process_ = threads::process_id();
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

// Closes a queue when the store and all readers are gone.
class OpenQueue {
 public:
  explicit OpenQueue(std::shared_ptr<RequestQueue> queue) : queue_(std::move(queue)) {}
  OpenQueue(const OpenQueue&) = delete;
  OpenQueue& operator=(const OpenQueue&) = delete;
  ~OpenQueue() { queue_->close(); }

  RequestQueue& queue() const { return *queue_; }

 private:
  std::shared_ptr<RequestQueue> queue_;
};

// Reads one version of an object through a queue.
class QueuedReader final : public RangeReader {
 public:
  QueuedReader(std::shared_ptr<const OpenQueue> queue, std::string url, std::string version)
      : queue_(std::move(queue)), url_(std::move(url)), version_(std::move(version)) {}

  void read(RangeRequest request, Done done) const override {
    queue_->queue().push(std::make_shared<QueuedRequest>(url_, version_, std::move(request), std::move(done)));
  }
  size_t max_in_flight() const override { return 64; }

 private:
  std::shared_ptr<const OpenQueue> queue_;
  std::string url_, version_;
};

}  // namespace atompack::io::fetch
