// A reader and a writer that take turns at their system calls, so that every interleaving of them can be played.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "io/system_calls.h"

namespace atompack::test {

class Interleaving {
 public:
  static constexpr size_t kToItsEnd = std::numeric_limits<size_t>::max();

  // `turns`: the number of calls that the reader makes, then the writer, and so on in turn; after the last turn each
  // continues to its end, the one whose turn comes next first. A turn ends before the call that exceeds it, or with the
  // program. Only calls of the writer that change something count: the reader changes nothing that it could see.
  // Exceptions are thrown again.
  Interleaving(const std::function<void()>& reader, const std::function<void()>& writer, std::vector<size_t> turns)
      : turns_(std::move(turns)) {
    next_turn();
    std::thread other([&] { play(kWriter, writer); });
    play(kReader, reader);
    other.join();
    for (const std::exception_ptr& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  size_t n_reader_calls() const { return n_calls_[kReader]; }
  size_t n_writer_calls() const { return n_calls_[kWriter]; }

 private:
  static constexpr size_t kReader = 0, kWriter = 1;

  void play(size_t me, const std::function<void()>& program) {
    {
      std::unique_lock lock(mutex_);
      wait(lock, me);
    }
    try {
      const ObservedCalls observed([this, me](Call call) {
        if (me == kReader || call == Call::changes) before_call(me);
      });
      program();
    } catch (...) {
      failures_[me] = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_[me] = true;
    who_ = 1 - me;
    if (!done_[who_]) left_ = kToItsEnd;
    changed_.notify_all();
  }

  void before_call(size_t me) {
    std::unique_lock lock(mutex_);
    while (left_ == 0 && !done_[1 - me]) {
      who_ = 1 - me;
      next_turn();
      changed_.notify_all();
      wait(lock, me);
    }
    ++n_calls_[me];
    if (left_ != kToItsEnd) --left_;
  }

  void next_turn() { left_ = n_turns_ < turns_.size() ? turns_[n_turns_++] : kToItsEnd; }
  void wait(std::unique_lock<std::mutex>& lock, size_t me) {
    changed_.wait(lock, [&] { return who_ == me || done_[1 - me]; });
  }

  std::vector<size_t> turns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t n_turns_ = 0, who_ = 0;
  size_t left_ = 0;
  bool done_[2] = {false, false};
  size_t n_calls_[2] = {0, 0};
  std::exception_ptr failures_[2];
};

}  // namespace atompack::test
