#include "io/fetch/request_queue.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace atompack::io::fetch {

QueuedRequest::~QueuedRequest() { fail(ECANCELED, "the store was closed"); }

void QueuedRequest::finish(std::string_view bytes) {
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

void QueuedRequest::fail(int code, const std::string& reason) {
  if (const Done done = take_done()) done(std::make_exception_ptr(IoError(code, reason, url_)));
}

Done QueuedRequest::take_done() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, nullptr);
}

RequestQueue::~RequestQueue() {
  if (!is_own_process()) static_cast<void>(state_.release());
}

void RequestQueue::push(std::shared_ptr<QueuedRequest> request) {
  if (!is_own_process()) throw IoError(EIO, "opened before a fork: open it again in the child", request->url());
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->is_closed) state_->waiting.push_back(std::move(request));
  }
  state_->arrived.notify_one();
}

RequestQueue::Requests RequestQueue::take(size_t max) {
  std::unique_lock lock(state_->mutex);
  auto& waiting = state_->waiting;
  state_->arrived.wait(lock, [&] { return state_->is_closed || !waiting.empty(); });
  Requests taken;
  for (; taken.size() < max && !waiting.empty(); waiting.pop_front()) taken.push_back(std::move(waiting.front()));
  return taken;
}

void RequestQueue::close() {
  if (!is_own_process()) return;
  std::deque<std::shared_ptr<QueuedRequest>> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
    dropped.swap(state_->waiting);
  }
  state_->arrived.notify_all();
}

}  // namespace atompack::io::fetch
