// Loops that the caller of a kernel may have divided among threads.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace atompack::threads {

// By default one chunk, on the calling thread.
class ChunkedLoops {
 public:
  // Calls task(0) to task(n_tasks - 1), each once, on any threads, and throws the first exception.
  using Run = std::function<void(size_t n_tasks, const std::function<void(size_t)>& task)>;

  ChunkedLoops() = default;
  ChunkedLoops(size_t n_chunks, Run run) : n_chunks_(n_chunks), run_(std::move(run)) {}

  size_t n_chunks() const { return n_chunks_; }

  // Calls body(chunk, first, last) for the chunks of [0, n), some of which may be empty. The same for each call.
  template <typename Body>
  void for_each(size_t n, const Body& body) const {
    if (n_chunks_ == 1) return body(size_t{0}, size_t{0}, n);
    run_(n_chunks_, [&](size_t chunk) { body(chunk, n * chunk / n_chunks_, n * (chunk + 1) / n_chunks_); });
  }

 private:
  size_t n_chunks_ = 1;
  Run run_;
};

}  // namespace atompack::threads
