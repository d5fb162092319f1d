// Readers of objects in memory that answer when the test says so, or from threads of their own in any order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "io/fetch/page.h"
#include "io/fetch/range_reader.h"
#include "io/read_ahead.h"

namespace atompack::test {

inline std::vector<std::byte> random_bytes(uint64_t n, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline std::exception_ptr io_error(int code) {
  return std::make_exception_ptr(IoError(code, "the server", "s3://b/k"));
}

// Keeps requests until the test answers them. Thread-safe.
class HeldReader final : public io::fetch::RangeReader {
 public:
  explicit HeldReader(std::vector<std::byte> object) : object_(std::move(object)) {}

  const std::vector<std::byte>& object() const { return object_; }
  size_t max_in_flight() const override { return 8; }

  void read(io::fetch::RangeRequest request, io::fetch::Done done) const override {
    const std::lock_guard lock(mutex_);
    if (refusal_) std::rethrow_exception(refusal_);
    ranges_.push_back({request.offset, request.length()});
    requests_.emplace_back(Held{std::move(request), std::move(done)});
    came_.notify_all();
  }

  // read() throws this from now on; nullptr: no more.
  void refuse(std::exception_ptr error) const {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(error);
  }

  // All requests so far.
  std::vector<io::ByteRange> ranges() const {
    const std::lock_guard lock(mutex_);
    return ranges_;
  }
  size_t n_requests() const { return ranges().size(); }
  void wait_for(size_t n) const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return requests_.size() >= n; });
  }

  // Answers one request, by number, with the object's bytes or an error.
  void answer(size_t number, const std::exception_ptr& error = nullptr) const {
    Held held;
    {
      const std::lock_guard lock(mutex_);
      held = std::move(requests_.at(number)).value();
      requests_[number].reset();
    }
    if (!error) fill(held.request);
    held.done(error);
  }
  void answer_all(const std::exception_ptr& error = nullptr) const {
    for (size_t number = 0; number < n_requests(); ++number) {
      if (is_held(number)) answer(number, error);
    }
  }

 private:
  struct Held {
    io::fetch::RangeRequest request;
    io::fetch::Done done;
  };

  bool is_held(size_t number) const {
    const std::lock_guard lock(mutex_);
    return requests_[number].has_value();
  }
  void fill(const io::fetch::RangeRequest& request) const {
    uint64_t offset = request.offset;
    for (const auto part : request.into) {
      store(part.data(), Bytes(object_).subspan(offset, part.size()));
      offset += part.size();
    }
  }

  std::vector<std::byte> object_;
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  mutable std::vector<std::optional<Held>> requests_;
  mutable std::vector<io::ByteRange> ranges_;
  mutable std::exception_ptr refusal_;
};

// Answers from threads, after short times and out of order. Every n-th request fails if `fail_every` is not 0.
class BusyReader final : public io::fetch::RangeReader {
 public:
  explicit BusyReader(std::vector<std::byte> object, size_t n_threads = 3, uint64_t fail_every = 0)
      : held_(std::move(object)), fail_every_(fail_every) {
    for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  ~BusyReader() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    came_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const std::vector<std::byte>& object() const { return held_.object(); }
  size_t max_in_flight() const override { return 8; }
  std::vector<io::ByteRange> ranges() const { return held_.ranges(); }

  void read(io::fetch::RangeRequest request, io::fetch::Done done) const override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(held_.n_requests());
    held_.read(std::move(request), std::move(done));
    came_.notify_one();
  }

 private:
  void run(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::unique_lock lock(mutex_);
    while (true) {
      came_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::swap(waiting_[random() % waiting_.size()], waiting_.back());
      const size_t number = waiting_.back();
      waiting_.pop_back();
      lock.unlock();
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      held_.answer(number, fail_every_ > 0 && number % fail_every_ == 0 ? io_error(EIO) : nullptr);
      lock.lock();
    }
  }

  HeldReader held_;
  uint64_t fail_every_;
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  mutable std::vector<size_t> waiting_;
  mutable bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace atompack::test
