// Waits for the answers of readers.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "io/fetch/range_reader.h"

namespace atompack::test {

// Hands errors over: ThreadSanitizer does not know how std::exception_ptr counts its owners.
class Answers {
 public:
  io::fetch::Done done() {
    const std::lock_guard lock(mutex_);
    ++n_expected_;
    return [this](std::exception_ptr error) {
      const std::lock_guard answered(mutex_);
      if (error && !error_) error_ = std::move(error);
      --n_expected_;
      came_.notify_all();
    };
  }
  // Throws the first error.
  void wait() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return n_expected_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  size_t n_expected_ = 0;
  std::exception_ptr error_;
};

}  // namespace atompack::test
