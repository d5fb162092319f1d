// Order, limits, retries, redirects and hedges of the requests of a store.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "io/fetch/http/credentials_cache.h"
#include "io/fetch/http/exchange.h"
#include "io/fetch/http/latencies.h"
#include "io/fetch/http/poller.h"
#include "io/fetch/http/request_maker.h"

namespace atompack::io::fetch::http {

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  explicit Scheduler(HttpOptions options);

  const HttpOptions& options() const { return options_; }
  void submit(CallPtr call);  // thread-safe
  void cancel(const CallPtr& call);
  void stop();

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
  // These return true if the call goes on.
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
