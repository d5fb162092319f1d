// Many transfers of libcurl on one thread, driven by epoll.
#pragma once

#include <curl/curl.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "io/unique_fd.h"

namespace atompack::io::fetch::http {

// All calls but wake() are made by one thread.
class Poller {
 public:
  explicit Poller(size_t max_connections);

  void add(CURL* easy);
  void remove(CURL* easy);

  // Returns after `max`, or as soon as there is something to do.
  void wait(std::chrono::milliseconds max);
  // Lets the transfers proceed for which wait() found something to do.
  void proceed();
  // Ends the wait() that runs, or the next one. Thread-safe.
  void wake();

  // Returns a transfer that has ended, and its result.
  std::optional<std::pair<CURL*, CURLcode>> next_finished();

 private:
  using Clock = std::chrono::steady_clock;
  struct FreeMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };

  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket_data);
  static int on_timer(CURLM* multi, long timeout_ms, void* self);
  void act(curl_socket_t fd, int events);

  UniqueFd epoll_, event_;
  std::unique_ptr<CURLM, FreeMulti> multi_;
  std::array<epoll_event, 256> events_{};
  int n_events_ = 0;
  std::optional<Clock::time_point> deadline_;  // of libcurl
  std::atomic<bool> is_woken_{false};
};

}  // namespace atompack::io::fetch::http
