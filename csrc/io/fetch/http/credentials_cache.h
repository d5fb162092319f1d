// Credentials from a provider that may block.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "io/fetch/http/call.h"

namespace atompack::io::fetch::http {

// Calls the provider on a thread of its own, shortly before the credentials expire, and calls `wake` when it returned.
// Thread-safe; the destructor waits for the provider, unless the provider itself drops the last owner: then it is let
// run to its end.
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
    std::function<void()> wake;  // empty when the cache is gone
    mutable std::mutex mutex;    // guards all members below; never held while the provider runs
    Ptr current;
    bool is_fetching = false;
    std::exception_ptr error;
    Clock::time_point fetched_at{}, next_try{}, next_renewal{};

    void fetch();
  };
  void start(const std::unique_lock<std::mutex>&);

  const std::shared_ptr<State> state_;
  std::thread thread_;  // guarded by the state's mutex
};

}  // namespace atompack::io::fetch::http
