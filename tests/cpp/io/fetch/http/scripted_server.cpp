#include "io/fetch/http/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "base/error.h"

namespace atompack::test {
namespace {

// Returns nullopt when the client has closed the connection.
std::optional<ReceivedRequest> receive_request(int fd, std::string& buffer) {
  std::array<char, 65536> chunk;
  const auto read_more = [&] {
    const ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (n > 0) buffer.append(chunk.data(), static_cast<size_t>(n));
    return n > 0;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return std::nullopt;
    if (buffer.front() == 0x16) return ReceivedRequest{.method = "TLS"};  // a handshake
  }
  ReceivedRequest request;
  size_t at = buffer.find("\r\n");
  const std::string line = buffer.substr(0, at);
  request.method = line.substr(0, line.find(' '));
  request.target = line.substr(request.method.size() + 1, line.rfind(' ') - request.method.size() - 1);
  while (at < end) {
    const size_t next = buffer.find("\r\n", at + 2);
    const std::string header = buffer.substr(at + 2, next - at - 2);
    std::string name = header.substr(0, header.find(':'));
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    const size_t value = header.find_first_not_of(' ', name.size() + 1);
    request.headers[name] = value == std::string::npos ? "" : header.substr(value);
    at = next;
  }
  buffer.erase(0, end + 4);
  const auto length = request.headers.find("content-length");
  const size_t n = length == request.headers.end() ? 0 : std::stoul(length->second);
  while (buffer.size() < n) {
    if (!read_more()) return std::nullopt;
  }
  request.body = buffer.substr(0, n);
  buffer.erase(0, n);
  return request;
}

}  // namespace

ScriptedReply reply(int status, const std::map<std::string, std::string>& headers, const std::string& body) {
  std::string bytes = cat("HTTP/1.1 ", status, " Because\r\n");
  for (const auto& [name, value] : headers) bytes += name + ": " + value + "\r\n";
  if (!headers.contains("Content-Length") && !headers.contains("Transfer-Encoding")) {
    bytes += cat("Content-Length: ", body.size(), "\r\n");
  }
  return {.bytes = bytes + "\r\n" + body};
}

ScriptedReply serve(const ReceivedRequest& request, const std::string& object, const std::string& etag) {
  const auto condition = request.headers.find("if-match");
  if (condition != request.headers.end() && condition->second != etag) return reply(412);
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) return reply(200, {{"ETag", etag}}, object);
  unsigned long long first = 0, last = 0;
  if (std::sscanf(range->second.c_str(), "bytes=%llu-%llu", &first, &last) != 2) return reply(400);
  if (first >= object.size()) return reply(416, {{"Content-Range", cat("bytes */", object.size())}});
  const std::string part = object.substr(first, last - first + 1);
  const std::string content_range = cat("bytes ", first, "-", first + part.size() - 1, "/", object.size());
  return reply(206, {{"ETag", etag}, {"Content-Range", content_range}}, part);
}

ScriptedServer::ScriptedServer(Script script)
    : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener_ || ::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), 1024) != 0 ||
      ::getsockname(listener_.get(), generic, &size) != 0) {
    throw std::runtime_error("no socket for the test's server");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
  }
  stopped_.notify_all();
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : connections_) ::close(fd);
}

std::string ScriptedServer::host() const { return cat("127.0.0.1:", port_); }

std::string ScriptedServer::url(const std::string& path) const { return "http://" + host() + path; }

std::vector<ReceivedRequest> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

size_t ScriptedServer::n_connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void ScriptedServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex_);
    connections_.push_back(fd);
    if (is_stopped_) {
      ::shutdown(fd, SHUT_RDWR);
    } else {
      threads_.emplace_back([this, fd] { serve_connection(fd); });
    }
  }
}

void ScriptedServer::serve_connection(int fd) {
  std::string buffer;
  while (auto request = receive_request(fd, buffer)) {
    {
      const std::lock_guard lock(mutex_);
      request->number = requests_.size();
      requests_.push_back(*request);
    }
    if (!send_reply(fd, script_(*request))) break;
  }
  ::shutdown(fd, SHUT_RDWR);
}

// Returns false if the connection ends.
bool ScriptedServer::send_reply(int fd, const ScriptedReply& sent) {
  {
    std::unique_lock lock(mutex_);
    if (stopped_.wait_for(lock, sent.delay, [&] { return is_stopped_; })) return false;
  }
  for (size_t at = 0; at < sent.bytes.size();) {
    const ssize_t n = ::send(fd, sent.bytes.data() + at, sent.bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  if (sent.stalls) {
    char byte = 0;
    static_cast<void>(::recv(fd, &byte, 1, 0) == 0);  // until the client closes
    return false;
  }
  return !sent.closes;
}

}  // namespace atompack::test
