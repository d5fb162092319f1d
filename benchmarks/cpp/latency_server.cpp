// An HTTP server on loopback that answers as late as a remote one: files of a folder, whole or in ranges, each answer
// delayed by the same time. One thread, for benchmarks and tests of clients.
//
//   atompack_latency_server FOLDER [--latency-ms 30] [--port 0]
//
// Prints its port when it listens, and after SIGTERM or SIGINT the number of answers and the processor time of each.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "base/error.h"
#include "http_answer.h"
#include "io/file.h"
#include "io/unique_fd.h"

namespace atompack::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using io::throw_errno;
using io::UniqueFd;

volatile sig_atomic_t stopped = 0;

struct Connection {
  Connection(UniqueFd socket, uint64_t number) : socket(std::move(socket)), number(number) {}

  UniqueFd socket;
  uint64_t number;
  std::string input;       // not answered yet
  bool answering = false;  // a delayed or unfinished answer
  Answer answer;
  std::vector<char> output;  // bytes of the answer from `sent` on are to be sent
  size_t sent = 0;
};

class Server {
 public:
  Server(const std::string& folder, uint16_t port, std::chrono::milliseconds latency)
      : files_(folder), latency_(latency), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    if (!epoll_ || !listener_ || ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(listener_.get(), any, size) != 0 || ::listen(listener_.get(), 4096) != 0 ||
        ::getsockname(listener_.get(), any, &size) != 0) {
      throw_errno("127.0.0.1");
    }
    port_ = ntohs(address.sin_port);
    watch(listener_.get(), EPOLLIN);
  }

  int port() const { return port_; }
  uint64_t n_answers() const { return n_answers_; }

  // Until a signal that is blocked outside of epoll_pwait sets `stopped`.
  void run() {
    sigset_t none;
    ::sigemptyset(&none);
    std::array<epoll_event, 512> events;
    while (stopped == 0) {
      const int n = ::epoll_pwait(epoll_.get(), events.data(), events.size(), milliseconds_to_wait(), &none);
      if (n < 0 && errno != EINTR) throw_errno("epoll_pwait");
      now_ = Clock::now();
      for (int i = 0; i < n; ++i) {
        const int fd = events[i].data.fd;
        if (fd == listener_.get()) {
          accept_all();
        } else {
          serve(fd);
        }
      }
      send_due();
    }
  }

 private:
  // All answers are delayed by the same time, so the first one is due first.
  struct Delayed {
    Clock::time_point due;
    int fd;
    uint64_t connection;
  };

  int milliseconds_to_wait() const {
    if (delayed_.empty()) return -1;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(delayed_.front().due - Clock::now());
    return static_cast<int>(std::max<int64_t>(0, wait.count()));
  }

  void watch(int fd, uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
  }

  void accept_all() {
    const int on = 1;
    for (;;) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;  // none left, or one that was reset
      const auto fd = static_cast<size_t>(socket.get());
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      watch(socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
      if (connections_.size() <= fd) connections_.resize(fd + 1);
      connections_[fd] = std::make_unique<Connection>(std::move(socket), ++n_connections_);
    }
  }

  // Reads requests, and continues with an answer that did not fit into the socket.
  void serve(int fd) {
    Connection* const connection = connections_[fd].get();
    if (connection == nullptr) return;
    if (!receive(*connection) || (!connection->output.empty() && !send(*connection)) || !next_request(*connection)) {
      connections_[fd].reset();
    }
  }

  // Returns false at the end of the connection.
  bool receive(Connection& connection) {
    std::array<char, 8192> buffer;
    for (;;) {
      const ssize_t got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
      if (got > 0) connection.input.append(buffer.data(), static_cast<size_t>(got));
      if (connection.input.size() > kMaxInput || got == 0) return false;
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (static_cast<size_t>(got) < buffer.size()) return true;
    }
  }

  // Returns false if the connection is to be closed.
  bool next_request(Connection& connection) {
    while (!connection.answering) {
      const size_t end = connection.input.find("\r\n\r\n");
      if (end == std::string::npos) return true;
      const auto request = parse_request(std::string_view(connection.input).substr(0, end + 2));
      if (!request) return false;
      connection.answer = answer_to(*request, files_);
      connection.input.erase(0, end + 4);  // the request refers to it
      connection.answering = true;
      if (latency_.count() > 0) {
        delayed_.push_back({now_ + latency_, connection.socket.get(), connection.number});
      } else if (!start(connection)) {
        return false;
      }
    }
    return true;
  }

  void send_due() {
    if (!delayed_.empty()) now_ = Clock::now();
    for (; !delayed_.empty() && delayed_.front().due <= now_; delayed_.pop_front()) {
      const auto [due, fd, number] = delayed_.front();
      auto& connection = connections_[fd];
      if (!connection || connection->number != number) continue;  // closed meanwhile
      if (!start(*connection) || !next_request(*connection)) connection.reset();
    }
  }

  bool start(Connection& connection) {
    ++n_answers_;
    connection.output.assign(connection.answer.head.begin(), connection.answer.head.end());
    connection.sent = 0;
    return send(connection);
  }

  // Sends as much of the answer as the socket takes. Returns false if the connection is to be closed.
  bool send(Connection& connection) {
    for (;;) {
      if (!read_more(connection)) return false;
      const size_t left = connection.output.size() - connection.sent;
      if (left == 0) break;
      const ssize_t put =
          ::send(connection.socket.get(), connection.output.data() + connection.sent, left, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return errno == EAGAIN;
      connection.sent += static_cast<size_t>(put);
    }
    connection.output.clear();
    connection.answering = false;
    return !connection.answer.closes;
  }

  // Appends the next part of the file, once all of the one before was sent. Returns false if the file was truncated.
  static bool read_more(Connection& connection) {
    constexpr size_t kPart = 256 << 10;
    Answer& answer = connection.answer;
    const bool is_head = connection.sent == 0 && connection.output.size() == answer.head.size();
    if (answer.begin == answer.end || (!is_head && connection.sent < connection.output.size())) return true;
    if (!is_head) {
      connection.output.clear();
      connection.sent = 0;
    }
    const size_t before = connection.output.size();
    connection.output.resize(before + std::min<uint64_t>(kPart, answer.end - answer.begin));
    const ssize_t got = ::pread(answer.file->fd.get(), connection.output.data() + before,
                                connection.output.size() - before, static_cast<off_t>(answer.begin));
    if (got <= 0) return false;
    connection.output.resize(before + static_cast<size_t>(got));
    answer.begin += static_cast<size_t>(got);
    return true;
  }

  static constexpr size_t kMaxInput = 64 << 10;

  Files files_;
  const std::chrono::milliseconds latency_;
  UniqueFd epoll_, listener_;
  int port_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;  // by descriptor
  std::deque<Delayed> delayed_;
  Clock::time_point now_ = Clock::now();
  uint64_t n_connections_ = 0, n_answers_ = 0;
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Options {
  std::string folder;
  uint16_t port = 0;
  uint16_t latency_ms = 30;
};

// Returns nullopt for wrong arguments.
std::optional<Options> parse(const std::vector<std::string>& arguments) {
  Options options;
  const auto number = [&](size_t i, uint16_t& into) {
    if (i == arguments.size()) return false;
    const char* const end = arguments[i].data() + arguments[i].size();
    const auto [stop, error] = std::from_chars(arguments[i].data(), end, into);
    return error == std::errc() && stop == end;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--latency-ms") {
      if (!number(++i, options.latency_ms)) return std::nullopt;
    } else if (arguments[i] == "--port") {
      if (!number(++i, options.port)) return std::nullopt;
    } else if (options.folder.empty() && !arguments[i].starts_with("--")) {
      options.folder = arguments[i];
    } else {
      return std::nullopt;
    }
  }
  return options.folder.empty() ? std::nullopt : std::optional(options);
}

int run(const std::vector<std::string>& arguments) {
  const auto options = parse(arguments);
  if (!options) {
    std::fprintf(stderr, "usage: atompack_latency_server FOLDER [--latency-ms 30] [--port 0]\n");
    return 2;
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);

  struct sigaction action{};
  action.sa_handler = [](int) { stopped = 1; };
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT}) {
    ::sigaction(signal, &action, nullptr);
    ::sigaddset(&blocked, signal);
  }
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);

  Server server(options->folder, options->port, std::chrono::milliseconds(options->latency_ms));
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  server.run();
  const double seconds = processor_seconds();
  std::printf("%lu %.3f\n", static_cast<unsigned long>(server.n_answers()),
              server.n_answers() > 0 ? 1e6 * seconds / static_cast<double>(server.n_answers()) : 0.0);
  return 0;
}

}  // namespace
}  // namespace atompack::benchmarks

int main(int argc, char** argv) {
  try {
    return atompack::benchmarks::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
