// Failed requests: their reasons in words, and which of them are worth another attempt.
#pragma once

#include <curl/curl.h>

#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/fetch/http/response_headers.h"

namespace atompack::io::fetch::http {

// One attempt that failed. Becomes an IoError once no other attempt is made.
struct Failure {
  int code = 0;  // errno
  std::string reason;
  bool may_retry = false;
  bool is_connecting = false;  // no connection was made
  int status = 0;              // of the response; 0 if there was none
  std::string error_code;      // the store's own, such as SlowDown
  std::optional<std::chrono::seconds> retry_after{};
};

// Refuses a response while it arrives.
class ResponseError : public std::runtime_error {
 public:
  explicit ResponseError(Failure failure) : std::runtime_error(failure.reason), failure_(std::move(failure)) {}
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

// Thrown and caught, so that the thread that makes it shares nothing with the one that handles it.
std::exception_ptr io_error(int code, const std::string& reason, const std::string& path);

// `body` is the beginning of the response; `secrets` are removed from quotations.
Failure failure_of_response(const ResponseHead& head, std::string_view body, std::span<const std::string> secrets);

// `detail` is curl's own message.
Failure failure_of_transfer(CURLcode code, std::string_view detail);

// The content of the first element of this name, or nothing.
std::string_view xml_element(std::string_view xml, std::string_view name);

}  // namespace atompack::io::fetch::http
