// Order, limits, retries, redirects and hedges of the requests of a store.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "io/fetch/http/credentials_cache.h"
#include "io/fetch/http/exchange.h"
#include "io/fetch/http/poller.h"
#include "io/fetch/http/request_maker.h"
#include "threads/process.h"

namespace atompack::io::fetch::http {

// Recent latencies of small reads.
class Latencies {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void add(Duration latency) {
    recent_[n_ % recent_.size()] = latency;
    ++n_;
    if (n_ % kInterval == 0) update();
  }

  // Returns the 99th percentile; nullopt if there are fewer than `min_samples`.
  std::optional<Duration> p99(size_t min_samples) const {
    if (n_ < min_samples || n_ < kInterval) return std::nullopt;
    return p99_;
  }

 private:
  static constexpr size_t kInterval = 32;  // between updates

  void update() {
    auto sorted = recent_;
    const size_t n = std::min(n_, sorted.size());
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(n * 99 / 100);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(n));
    p99_ = *at;
  }

  std::array<Duration, 512> recent_{};
  size_t n_ = 0;
  Duration p99_{};
};

// Stops native threads from using OpenSSL while the process ends.

// Registers closing of the gate with std::atexit, once. Must be called after OpenSSL has registered its own clean-up,
// which then runs later.
void close_gate_at_exit();

bool is_gate_closed();

// To be held by a thread while it uses OpenSSL; blocks forever once the gate is closed.
std::shared_lock<std::shared_mutex> pass_gate();

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  explicit Scheduler(HttpOptions options);

  const HttpOptions& options() const { return options_; }
  // Thread-safe; calls `done` on the thread of the scheduler, or before it returns if there is none, as in a fork.
  void submit(const CallPtr& call);
  void stop();

  bool is_forked() const { return owner_ != threads::process_id(); }

 private:
  using Outcome = std::optional<Failure>;
  static constexpr unsigned kMaxRedirects = 5;

  void run();
  void end_all();
  void start_queued();
  void start(CallPtr call);
  void run_exchange(const CallPtr& call, std::shared_ptr<const Prepared> prepared, bool into_buffer, Exchange* other);
  void take_finished();
  void on_finished(Exchange& exchange, CURLcode code);
  void release(Exchange& exchange);

  void on_failure(const CallPtr& call, Failure failure, Exchange& exchange);
  // These return true if the call continues.
  bool follow(Call& call, const Prepared& sent);
  bool resolve_again(Call& call, const Failure& failure, const Prepared& sent);
  bool renew_credentials(const CallPtr& call, const Failure& failure, const Prepared& sent);
  bool retry(const CallPtr& call, const Failure& failure);
  void fail(const CallPtr& call, const Failure& failure);
  void end(const CallPtr& call, std::exception_ptr error);

  void check_running(Clock::time_point now);
  void hedge(Exchange& exchange, Clock::time_point now);
  void requeue_delayed(Clock::time_point now);
  void requeue_unauthorized();

  const HttpOptions options_;
  const std::string ca_file_;
  const int64_t owner_ = threads::process_id();
  Poller poller_;
  RequestMaker maker_;
  CredentialsCache credentials_;

  std::mutex mutex_;  // guards the next three
  std::vector<CallPtr> submitted_;
  bool is_stopped_ = false;
  std::thread thread_;

  // Used by the thread alone.
  std::deque<CallPtr> queue_;
  std::multimap<Clock::time_point, CallPtr> delayed_;
  std::vector<CallPtr> unauthorized_;  // wait for credentials
  std::vector<std::unique_ptr<Exchange>> running_, spares_;
  size_t n_hedges_ = 0;
  Latencies latencies_;
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace atompack::io::fetch::http
