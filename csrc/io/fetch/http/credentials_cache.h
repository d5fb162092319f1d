// Credentials from a provider that may block.
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include "io/fetch/http/call.h"

namespace atompack::io::fetch::http {

// Calls the provider on a thread of its own, shortly before the credentials expire, and calls `wake`, which must not
// block, when it returned. Thread-safe. A provider that runs when the cache is destroyed is left to itself.
class CredentialsCache {
 public:
  using Ptr = std::shared_ptr<const Credentials>;

  CredentialsCache(CredentialsProvider provider, std::function<void()> wake);
  ~CredentialsCache();

  // Returns nullptr, and starts fetching, if none are valid.
  Ptr current();

  // To be called if the server refused these. Returns true if there are others, or they are being fetched; false if the
  // provider has just returned the same ones.
  bool renew(const Ptr& refused);

  bool is_fetching() const;
  // The error of the last fetch, nullptr after a success. Is returned once.
  std::exception_ptr take_error();

 private:
  // What the thread uses; it may outlive the cache.
  struct State {
    CredentialsProvider provider;
    mutable std::mutex mutex;    // guards all members below; never held while the provider runs
    std::function<void()> wake;  // empty when the cache is gone
    Ptr current;
    bool is_fetching = false;
    std::exception_ptr error;
    Clock::time_point fetched_at{}, next_try{}, next_renewal{};

    void fetch();
  };
  void start(const std::unique_lock<std::mutex>&);

  const std::shared_ptr<State> state_;
};

}  // namespace atompack::io::fetch::http
