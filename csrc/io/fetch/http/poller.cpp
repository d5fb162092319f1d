#include "io/fetch/http/poller.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>

#include "base/error.h"
#include "io/file.h"

namespace atompack::io::fetch::http {
namespace {

void check_multi(CURLMcode code) {
  if (code != CURLM_OK) throw IoError(EIO, curl_multi_strerror(code), "libcurl");
}

}  // namespace

Poller::Poller(size_t max_connections)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      multi_(curl_multi_init()) {
  if (!epoll_ || !event_) throw_errno("epoll");
  if (!multi_) throw std::bad_alloc();
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = event_.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &interest) != 0) throw_errno("epoll");
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &on_socket));
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, static_cast<void*>(this)));
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &on_timer));
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, static_cast<void*>(this)));
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(max_connections)));
  check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING)));
}

void Poller::add(CURL* easy) { check_multi(curl_multi_add_handle(multi_.get(), easy)); }

void Poller::remove(CURL* easy) { check_multi(curl_multi_remove_handle(multi_.get(), easy)); }

int Poller::on_socket(CURL*, curl_socket_t fd, int what, void* self, void* socket_data) {
  Poller& poller = *static_cast<Poller*>(self);
  if (what == CURL_POLL_REMOVE) {
    ::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);  // fails if it is closed already
    return 0;
  }
  epoll_event interest{};
  interest.events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
  interest.data.fd = fd;
  if (socket_data == nullptr) curl_multi_assign(poller.multi_.get(), fd, self);  // any mark that it is known
  if (socket_data == nullptr && ::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0) return 0;
  return ::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_MOD, fd, &interest) == 0 ? 0 : -1;
}

int Poller::on_timer(CURLM*, long timeout_ms, void* self) {
  Poller& poller = *static_cast<Poller*>(self);
  poller.deadline_.reset();
  if (timeout_ms >= 0) poller.deadline_ = Clock::now() + std::chrono::milliseconds(timeout_ms);
  return 0;
}

void Poller::act(curl_socket_t fd, int events) {
  int n_running = 0;
  check_multi(curl_multi_socket_action(multi_.get(), fd, events, &n_running));
}

void Poller::wait(std::chrono::milliseconds max) {
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    max = std::clamp(left, std::chrono::milliseconds(0), max);
  }
  n_events_ = ::epoll_wait(epoll_.get(), events_.data(), events_.size(), static_cast<int>(max.count()));
}

void Poller::proceed() {
  for (int i = 0; i < n_events_; ++i) {
    const auto [flags, data] = events_[static_cast<size_t>(i)];
    if (data.fd == event_.get()) {
      uint64_t count = 0;
      static_cast<void>(::read(event_.get(), &count, sizeof(count)) == 0);  // only clears it
      is_woken_.store(false);
      continue;
    }
    const int action = ((flags & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                       ((flags & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                       ((flags & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
    act(data.fd, action);
  }
  if (deadline_ && Clock::now() >= *deadline_) {
    deadline_.reset();
    act(CURL_SOCKET_TIMEOUT, 0);
  }
}

void Poller::wake() {
  if (is_woken_.exchange(true)) return;
  const uint64_t one = 1;
  static_cast<void>(::write(event_.get(), &one, sizeof(one)) == 0);  // cannot fail: the counter is far from full
}

std::optional<std::pair<CURL*, CURLcode>> Poller::next_finished() {
  int n_left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &n_left)) {
    if (message->msg == CURLMSG_DONE) return std::pair(message->easy_handle, message->data.result);
  }
  return std::nullopt;
}

}  // namespace atompack::io::fetch::http
