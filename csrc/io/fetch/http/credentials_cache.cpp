#include "io/fetch/http/credentials_cache.h"

#include <thread>
#include <tuple>
#include <utility>

namespace atompack::io::fetch::http {

constexpr double kRenewBefore = 300;        // seconds; others are fetched while the old ones are still in use
constexpr double kValidFor = 10;            // seconds, which requests need
constexpr std::chrono::seconds kPause{10};  // between fetches that fail, or change nothing

CredentialsCache::CredentialsCache(CredentialsProvider provider, std::function<void()> wake)
    : state_(std::make_shared<State>()) {
  state_->provider = std::move(provider);
  state_->wake = std::move(wake);
  if (!state_->provider) state_->current = std::make_shared<const Credentials>();
}

CredentialsCache::~CredentialsCache() {
  const std::lock_guard lock(state_->mutex);
  state_->wake = nullptr;
}

CredentialsCache::Ptr CredentialsCache::current() {
  std::unique_lock lock(state_->mutex);
  if (!state_->provider) return state_->current;
  const auto& [current, fetched_at] = std::tie(state_->current, state_->fetched_at);
  const std::chrono::duration<double> since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const double now = since_1970.count();
  const bool is_valid = current && (!current->expiry || now + kValidFor < *current->expiry ||
                                    Clock::now() - fetched_at < std::chrono::seconds(1));
  const bool is_late = current && current->expiry && now + kRenewBefore >= *current->expiry;
  if (!is_valid || (is_late && Clock::now() >= state_->next_try)) start(lock);
  return is_valid ? current : nullptr;
}

bool CredentialsCache::renew(const Ptr& refused) {
  std::unique_lock lock(state_->mutex);
  if (!state_->provider) return false;
  if (state_->current != refused || state_->is_fetching) return true;
  if (Clock::now() < state_->next_renewal) return false;
  start(lock);
  return true;
}

bool CredentialsCache::is_fetching() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_fetching;
}

std::exception_ptr CredentialsCache::take_error() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->error, nullptr);
}

void CredentialsCache::start(const std::unique_lock<std::mutex>&) {
  if (state_->is_fetching) return;
  std::thread([state = state_] { state->fetch(); }).detach();
  state_->error = nullptr;
  state_->is_fetching = true;
}

void CredentialsCache::State::fetch() {
  Ptr fetched;
  std::exception_ptr caught;
  try {
    fetched = std::make_shared<const Credentials>(provider());
  } catch (...) {  // rethrown to those who wait for it
    caught = std::current_exception();
  }
  const std::lock_guard lock(mutex);
  const auto now = Clock::now();
  if (fetched) {
    if (current && *current == *fetched) {
      next_renewal = now + kPause;
    } else {
      current = fetched;
    }
    fetched_at = now;
  }
  error = caught;
  if (caught) next_try = now + kPause;
  is_fetching = false;
  if (wake) wake();
}

}  // namespace atompack::io::fetch::http
