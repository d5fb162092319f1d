// An HTTP server on loopback whose answers a test decides.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/unique_fd.h"

namespace atompack::test {

struct ReceivedRequest {
  std::string method = {}, target = {};             // target: path and query as sent
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
  size_t number = 0;  // among all requests to the server, from 0
};

struct ScriptedReply {
  std::string bytes;
  std::chrono::milliseconds delay{0};  // before the first byte
  bool closes = false;                 // the connection, after the bytes
  bool stalls = false;                 // sends nothing after the bytes until the client gives up
};

// Status line, headers, Content-Length and body.
ScriptedReply reply(int status, const std::map<std::string, std::string>& headers = {}, const std::string& body = "");

// What a good server answers to a ranged GET of this object.
ScriptedReply serve(const ReceivedRequest& request, const std::string& object, const std::string& etag = "\"v1\"");

class ScriptedServer {
 public:
  using Script = std::function<ScriptedReply(const ReceivedRequest&)>;

  // The script is called by several threads at the same time.
  explicit ScriptedServer(Script script);
  ~ScriptedServer();

  std::string url(const std::string& path = "/object") const;
  std::string host() const;  // with the port
  std::vector<ReceivedRequest> requests() const;
  size_t n_connections() const;

 private:
  void accept_all();
  void serve_connection(int fd);
  bool send_reply(int fd, const ScriptedReply& sent);

  Script script_;
  io::UniqueFd listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
  std::vector<ReceivedRequest> requests_;
  std::vector<int> connections_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace atompack::test
