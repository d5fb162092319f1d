// Recovery of a failed attempt: redirects, other credentials, retries, or the end of the call.
#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "io/fetch/http/scheduler.h"

namespace atompack::io::fetch::http {

void Scheduler::on_failure(const CallPtr& call, Failure failure, Exchange& exchange) {
  exchange.give_answer();
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
