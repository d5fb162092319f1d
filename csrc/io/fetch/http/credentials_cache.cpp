#include "io/fetch/http/credentials_cache.h"

#include <utility>

namespace atompack::io::fetch::http {
namespace {

constexpr std::chrono::minutes kRenewBefore{5};  // others are fetched while the old ones are still in use
constexpr std::chrono::seconds kValidFor{10};    // requests need some time
constexpr std::chrono::seconds kPause{10};       // between fetches that fail, or change nothing

}  // namespace

CredentialsCache::CredentialsCache(CredentialsProvider provider, std::function<void()> wake)
    : provider_(std::move(provider)), wake_(std::move(wake)) {
  if (!provider_) current_ = std::make_shared<const Credentials>();
}

CredentialsCache::~CredentialsCache() {
  if (thread_.joinable()) thread_.join();
}

CredentialsCache::Ptr CredentialsCache::current() {
  std::unique_lock lock(mutex_);
  if (!provider_) return current_;
  const auto now = std::chrono::system_clock::now();
  const bool is_valid = current_ && (!current_->expiry || now + kValidFor < *current_->expiry ||
                                     Clock::now() - fetched_at_ < std::chrono::seconds(1));
  const bool is_late = current_ && current_->expiry && now + kRenewBefore >= *current_->expiry;
  if (!is_valid || (is_late && Clock::now() >= next_try_)) start(lock);
  return is_valid ? current_ : nullptr;
}

bool CredentialsCache::renew(const Ptr& refused) {
  std::unique_lock lock(mutex_);
  if (!provider_) return false;
  if (current_ != refused || is_fetching_) return true;
  if (Clock::now() < next_renewal_) return false;
  start(lock);
  return true;
}

bool CredentialsCache::is_fetching() const {
  const std::lock_guard lock(mutex_);
  return is_fetching_;
}

std::exception_ptr CredentialsCache::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, nullptr);
}

void CredentialsCache::start(const std::unique_lock<std::mutex>&) {
  if (is_fetching_) return;
  if (thread_.joinable()) thread_.join();  // has returned, or is about to
  error_ = nullptr;
  thread_ = std::thread([this] { fetch(); });
  is_fetching_ = true;
}

void CredentialsCache::fetch() {
  Ptr fetched;
  std::exception_ptr error;
  try {
    fetched = std::make_shared<const Credentials>(provider_());
  } catch (...) {  // rethrown to those who wait for it
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (fetched) {
      if (current_ && *current_ == *fetched) {
        next_renewal_ = now + kPause;
      } else {
        current_ = fetched;
      }
      fetched_at_ = now;
    }
    error_ = error;
    if (error) next_try_ = now + kPause;
    is_fetching_ = false;
  }
  wake_();
}

}  // namespace atompack::io::fetch::http
