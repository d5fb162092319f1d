#include "io/fetch/http/scheduler.h"

#include <curl/curl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "threads/per_process.h"

namespace atompack::io::fetch::http {
namespace {

std::atomic<bool> is_closed{false};

// Never destroyed: threads may wait at it until the process is gone. A fork has its own: the parent's may be held by a
// thread that the fork does not have.
std::shared_mutex& gate() {
  static const auto* const made =
      new threads::PerProcess<std::shared_mutex>([] { return std::make_unique<std::shared_mutex>(); });
  return made->get();
}

void close_gate() {
  is_closed.store(true);
  gate().lock();
}

// The file with the certificates that are trusted.

bool is_readable(const char* path) { return path != nullptr && *path != 0 && ::access(path, R_OK) == 0; }

// Returns SSL_CERT_FILE, else `chosen`, else libcurl's own default if it exists, else one of the known paths; empty if
// there is none.
std::string find_ca_file(const std::string& chosen) {
  if (const char* named = std::getenv("SSL_CERT_FILE"); named != nullptr && *named != 0) return named;
  if (!chosen.empty()) return chosen;
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  if (info->age >= CURLVERSION_SEVENTH && is_readable(info->cainfo)) return info->cainfo;
  for (const char* path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (is_readable(path)) return path;
  }
  return "";
}

constexpr milliseconds kTick{10};  // between looks for stalled and slow transfers, and for delayed calls
constexpr milliseconds kIdle{60'000};

// More requests that may run than Options::max_in_flight.
size_t max_hedges(const HttpOptions& options) {
  return options.hedge.multiple > 0 ? std::max<size_t>(options.max_in_flight / 16, 1) : 0;
}

}  // namespace

void close_gate_at_exit() {
  static const int code = std::atexit(&close_gate);
  static_cast<void>(code);
}

bool is_gate_closed() { return is_closed.load(); }

std::shared_lock<std::shared_mutex> pass_gate() {
  while (is_gate_closed()) ::pause();
  return std::shared_lock(gate());
}

Scheduler::Scheduler(HttpOptions options)
    : options_(std::move(options)),
      ca_file_(find_ca_file(options_.ca_file)),
      poller_(options_.max_in_flight + max_hedges(options_)),
      maker_(options_),
      credentials_(options_.credentials, [this] { poller_.wake(); }) {}

void Scheduler::submit(const CallPtr& call) {
  try {
    if (is_forked()) {
      throw std::runtime_error("threads do not survive fork(): reopen the file or start a new pass in the child");
    }
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = std::thread([self = shared_from_this()] { self->run(); });
    }
    submitted_.push_back(call);
  } catch (...) {  // the caller gets it by `done`, like every other error
    call->done(std::current_exception());
    return;
  }
  poller_.wake();
}

void Scheduler::stop() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    thread = std::move(thread_);
  }
  poller_.wake();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();  // keeps this object alive until it returns
  } else {
    thread.join();
  }
}

void Scheduler::run() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // above all SIGPIPE, of connections that the server has closed
  Clock::time_point next_check = Clock::now();
  for (;;) {
    const bool is_idle = running_.empty() && delayed_.empty();
    poller_.wait(is_idle && queue_.empty() ? kIdle : kTick);
    const auto gate = pass_gate();
    poller_.proceed();
    take_finished();
    const auto now = Clock::now();
    if (now >= next_check) {
      next_check = now + kTick;
      check_running(now);
      requeue_delayed(now);
    }
    {
      const std::lock_guard lock(mutex_);
      queue_.insert(queue_.end(), std::move_iterator(submitted_.begin()), std::move_iterator(submitted_.end()));
      submitted_.clear();
      if (is_stopped_) break;
    }
    requeue_unauthorized();
    start_queued();
  }
  end_all();
}

void Scheduler::end_all() {
  std::vector<CallPtr> left(queue_.begin(), queue_.end());
  queue_.clear();
  for (auto& [time, call] : delayed_) left.push_back(std::move(call));
  delayed_.clear();
  left.insert(left.end(), unauthorized_.begin(), unauthorized_.end());
  unauthorized_.clear();
  while (!running_.empty()) {
    Exchange& exchange = *running_.back();
    if (exchange.other == nullptr) left.push_back(exchange.call());
    release(exchange);
  }
  // Calls that wait for a resolver are queued again when it ends.
  while (!left.empty()) {
    for (const CallPtr& call : std::exchange(left, {})) {
      end(call, io_error(ECANCELED, "the store was closed", call->target->shown));
    }
    left.assign(queue_.begin(), queue_.end());
    queue_.clear();
  }
}

void Scheduler::start_queued() {
  while (!queue_.empty() && running_.size() < options_.max_in_flight + n_hedges_) {
    CallPtr call = std::move(queue_.front());
    queue_.pop_front();
    std::exception_ptr error;
    try {
      start(call);
    } catch (...) {  // handed to the caller
      error = std::current_exception();
    }
    if (error) end(call, std::move(error));
  }
}

void Scheduler::start(CallPtr call) {
  Target& target = *call->target;
  if (call->is_cancelled.load()) {
    return end(call, io_error(ECANCELED, "interrupted", target.shown));
  }
  if (call->range && call->range->length() == 0) return end(call, nullptr);
  if (target.is_resolving && !call->is_resolver) {
    target.waiting.push_back(std::move(call));
    return;
  }
  const CredentialsCache::Ptr credentials = credentials_.current();
  if (!credentials) {
    unauthorized_.push_back(std::move(call));
    return;
  }
  maker_.update_region(target);
  if (call->first_start == Clock::time_point()) call->first_start = Clock::now();
  run_exchange(call, maker_.prepare(*call, credentials), false, nullptr);
}

void Scheduler::run_exchange(const CallPtr& call, std::shared_ptr<const Prepared> prepared, bool into_buffer,
                             Exchange* other) {
  std::unique_ptr<Exchange> exchange;
  if (spares_.empty()) {
    exchange = std::make_unique<Exchange>(options_, ca_file_);
  } else {
    exchange = std::move(spares_.back());
    spares_.pop_back();
  }
  exchange->start(call, std::move(prepared), into_buffer, Clock::now());
  poller_.add(exchange->easy());
  exchange->position = running_.size();
  exchange->other = other;
  if (other != nullptr) {
    other->other = exchange.get();
    ++n_hedges_;
  }
  running_.push_back(std::move(exchange));
}

void Scheduler::release(Exchange& exchange) {
  poller_.remove(exchange.easy());
  if (exchange.other != nullptr) {
    exchange.other->other = nullptr;
    --n_hedges_;
  }
  exchange.reset();
  const size_t at = exchange.position;
  std::swap(running_[at], running_.back());
  running_[at]->position = at;
  spares_.push_back(std::move(running_.back()));
  running_.pop_back();
}

void Scheduler::take_finished() {
  while (const auto finished = poller_.next_finished()) {
    char* exchange = nullptr;
    check_curl(curl_easy_getinfo(finished->first, CURLINFO_PRIVATE, &exchange));
    on_finished(*reinterpret_cast<Exchange*>(exchange), finished->second);
  }
}

void Scheduler::on_finished(Exchange& exchange, CURLcode code) {
  const CallPtr call = exchange.call();
  Outcome failure;
  std::exception_ptr error;
  try {
    failure = exchange.finish(code);
  } catch (...) {  // handed to the caller
    error = std::current_exception();
  }
  if (failure && exchange.other != nullptr) return release(exchange);  // the other one may succeed
  if (error || failure) {
    if (exchange.other != nullptr) release(*exchange.other);
    if (failure) return on_failure(call, std::move(*failure), exchange);
    release(exchange);
    return end(call, std::move(error));
  }
  auto started = exchange.started();
  if (exchange.other != nullptr) {
    started = std::min(started, exchange.other->started());
    release(*exchange.other);
    if (exchange.uses_buffer()) exchange.copy_buffer();
  }
  if (!call->range) exchange.give_response();
  release(exchange);
  Target& target = *call->target;
  if (call->opens()) {
    target.version = call->version;
    target.version_from = target.address();
    target.prepared = nullptr;
  } else if (call->range && call->range->length() <= options_.hedge.max_bytes) {
    latencies_.add(Clock::now() - started);
  }
  end(call, nullptr);
}

void Scheduler::end(const CallPtr& call, std::exception_ptr error) {
  Target& target = *call->target;
  if (std::exchange(call->is_resolver, false)) {
    target.is_resolving = false;
    for (CallPtr& waiting : std::exchange(target.waiting, {})) queue_.push_back(std::move(waiting));
  }
  std::exchange(call->done, nullptr)(std::move(error));
}

void Scheduler::check_running(Clock::time_point now) {
  std::vector<Exchange*> running;
  running.reserve(running_.size());
  for (const auto& exchange : running_) running.push_back(exchange.get());
  for (Exchange* const exchange : running) {
    const CallPtr call = exchange->call();
    if (!call) continue;  // was released with the one that it hedged
    if (call->is_cancelled.load()) {
      if (exchange->other != nullptr) release(*exchange->other);
      release(*exchange);
      end(call, io_error(ECANCELED, "interrupted", call->target->shown));
    } else if (exchange->has_stalled(now)) {
      if (exchange->other != nullptr) {
        release(*exchange);
        continue;
      }
      const std::string reason = cat("the transfer stalled for ", options_.stall_timeout.count(), " ms");
      on_failure(call, {.code = ETIMEDOUT, .reason = reason, .may_retry = true, .error_code = {}}, *exchange);
    } else {
      hedge(*exchange, now);
    }
  }
}

void Scheduler::hedge(Exchange& exchange, Clock::time_point now) {
  const CallPtr& call = exchange.call();
  if (!call->range || call->opens() || exchange.other != nullptr || exchange.uses_buffer()) return;
  if (n_hedges_ >= max_hedges(options_) || call->range->length() > options_.hedge.max_bytes) return;
  const auto p99 = latencies_.p99(options_.hedge.min_samples);
  if (!p99) return;
  const auto longest = std::chrono::duration_cast<Clock::duration>(*p99 * options_.hedge.multiple);
  if (now - exchange.started() <= std::max<Clock::duration>(longest, options_.hedge.min_delay)) return;
  run_exchange(call, exchange.shared_prepared(), true, &exchange);
}

void Scheduler::requeue_delayed(Clock::time_point now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    queue_.push_front(std::move(delayed_.begin()->second));
    delayed_.erase(delayed_.begin());
  }
}

void Scheduler::requeue_unauthorized() {
  if (unauthorized_.empty() || credentials_.is_fetching()) return;
  const std::exception_ptr error = credentials_.take_error();
  const CredentialsCache::Ptr credentials = error ? nullptr : credentials_.current();
  if (!error && !credentials) return;
  for (const CallPtr& call : std::exchange(unauthorized_, {})) {
    const CredentialsCache::Ptr refused = std::exchange(call->refused_with, nullptr);
    if (error) {
      end(call, error);
    } else if (refused && *refused == *credentials) {
      fail(call, call->refusal);
    } else {
      queue_.push_back(call);
    }
  }
}

// Recovery of a failed attempt: redirects, other credentials, retries, or the end of the call.

void Scheduler::on_failure(const CallPtr& call, Failure failure, Exchange& exchange) {
  exchange.give_response();
  const std::shared_ptr<const Prepared> sent = exchange.shared_prepared();
  release(exchange);
  std::exception_ptr error;
  try {
    Target& target = *call->target;
    if (follow(*call, *sent)) return queue_.push_front(call);
    if (!call->has_changed_region && maker_.learn_region(target, call->head, call->text)) {
      call->has_changed_region = true;
      return queue_.push_front(call);
    }
    if (resolve_again(*call, failure, *sent)) return queue_.push_front(call);
    if (renew_credentials(call, failure, *sent) || retry(call, failure)) return;
  } catch (...) {  // handed to the caller
    error = std::current_exception();
  }
  if (error) return end(call, std::move(error));
  fail(call, failure);
}

// Redirects of plain addresses. Throws IoError for those that must not be followed.
bool Scheduler::follow(Call& call, const Prepared& sent) {
  Target& target = *call.target;
  const int status = call.head.status;
  const bool is_redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  const std::string* location = call.head.find("location");
  if (!is_redirect || location == nullptr || target.name || (call.method != "GET" && call.method != "HEAD"))
    return false;
  const Address base = parse_address(sent.url);
  Address next;
  try {
    next = resolve_location(base, *location);
  } catch (const std::invalid_argument& error) {
    throw IoError(EIO, cat("the server redirects to an invalid address: ", error.what()), target.shown);
  }
  if (base.scheme == "https" && next.scheme != "https") {
    throw IoError(EIO, cat("the server redirects from https to ", next.scheme, "://", next.host), target.shown);
  }
  if (++call.n_redirects > kMaxRedirects) {
    throw IoError(EIO, cat("expected at most ", kMaxRedirects, " redirects, got more"), target.shown);
  }
  target.redirected = std::move(next);
  target.prepared = nullptr;
  return true;
}

// A remembered address that has expired: one call follows the redirects from the beginning.
bool Scheduler::resolve_again(Call& call, const Failure& failure, const Prepared& sent) {
  Target& target = *call.target;
  const bool has_expired = failure.status == 401 || failure.status == 403 || failure.status == 410;
  if (!has_expired || sent.url == target.origin.url() || call.has_resolved) return false;
  call.has_resolved = true;
  call.n_redirects = 0;
  const bool is_first = target.redirected && target.redirected->url() == sent.url && !target.is_resolving;
  if (is_first) {
    target.redirected.reset();
    target.prepared = nullptr;
    target.is_resolving = call.is_resolver = true;
  }
  return true;
}

bool Scheduler::renew_credentials(const CallPtr& call, const Failure& failure, const Prepared& sent) {
  const bool is_refused =
      failure.status != 0 && failure.code == EACCES && sent.credentials && !sent.credentials->is_anonymous();
  if (!is_refused || call->has_renewed || !credentials_.renew(sent.credentials)) return false;
  call->has_renewed = true;
  call->refused_with = sent.credentials;
  call->refusal = failure;
  unauthorized_.push_back(call);
  return true;
}

bool Scheduler::retry(const CallPtr& call, const Failure& failure) {
  const RetryOptions& retry = options_.retry;
  const unsigned limit = failure.is_connecting ? retry.max_connect_attempts : retry.max_attempts;
  if (!failure.may_retry || call->n_failed + 1 >= limit) return false;
  const auto longest = std::min(retry.first_delay * (1U << std::min(call->n_failed, 16U)), retry.max_delay);
  std::uniform_int_distribution<int64_t> jitter(longest.count() / 2, longest.count());
  milliseconds delay(jitter(random_));
  if (failure.retry_after) delay = std::max(delay, std::min<milliseconds>(*failure.retry_after, retry.max_retry_after));
  const auto time = Clock::now() + delay;
  if (time - call->first_start > retry.max_total) return false;
  ++call->n_failed;
  delayed_.emplace(time, call);
  return true;
}

void Scheduler::fail(const CallPtr& call, const Failure& failure) {
  if (!call->range && failure.status != 0) {  // the caller looks at the status
    call->refusal = failure;
    return end(call, nullptr);
  }
  std::string reason = failure.reason;
  if (call->n_failed > 0) reason += cat(", after ", call->n_failed + 1, " attempts");
  end(call, io_error(failure.code, reason, call->target->shown));
}

}  // namespace atompack::io::fetch::http
