#include "io/fetch/http/failure.h"

#include <algorithm>
#include <cerrno>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"

namespace atompack::io::fetch::http {
namespace {

constexpr size_t kMaxQuoted = 200;

struct StatusMeaning {
  int status, code;
  std::string_view text;
};

// All other statuses are EIO.
constexpr StatusMeaning kMeanings[] = {{401, EACCES, " (not signed in)"},
                                       {403, EACCES, " (forbidden)"},
                                       {404, ENOENT, " (not found)"},
                                       {408, ETIMEDOUT, ""},
                                       {410, ENOENT, " (gone)"},
                                       {412, ESTALE, " (the object has changed)"},
                                       {416, ESTALE, " (the object is shorter than before)"},
                                       {429, EIO, " (too many requests)"},
                                       {503, EIO, " (unavailable)"},
                                       {504, ETIMEDOUT, ""}};

StatusMeaning meaning_of(int status) {
  const auto* const found = std::ranges::find(kMeanings, status, &StatusMeaning::status);
  return found == std::ranges::end(kMeanings) ? StatusMeaning{status, EIO, ""} : *found;
}

int errno_of_status(int status, std::string_view error_code) {
  if (error_code == "ExpiredToken" || error_code == "InvalidToken" || error_code == "TokenRefreshRequired") {
    return EACCES;
  }
  return meaning_of(status).code;
}

bool is_temporary(int status, std::string_view error_code) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
         error_code == "RequestTimeout" || error_code == "SlowDown" || error_code == "InternalError";
}

// One line of printable characters without secrets.
std::string quoted(std::string_view text, std::span<const std::string> secrets) {
  std::string made(text);
  for (const std::string& secret : secrets) {
    if (secret.size() < 4) continue;  // would remove ordinary letters
    for (size_t at = 0; (at = made.find(secret, at)) != std::string::npos;) made.replace(at, secret.size(), "***");
  }
  for (char& c : made) {
    if (is_control(c)) c = ' ';
  }
  if (made.size() > kMaxQuoted) made = made.substr(0, kMaxQuoted) + "...";
  if (!is_utf8(std::as_bytes(std::span(made)))) {
    std::ranges::replace_if(made, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  return made;
}

}  // namespace

std::exception_ptr io_error(int code, const std::string& reason, const std::string& path) {
  try {
    throw IoError(code, reason, path);
  } catch (const IoError&) {
    return std::current_exception();
  }
}

std::string_view xml_element(std::string_view xml, std::string_view name) {
  const std::string open = cat("<", name, ">"), close = cat("</", name, ">");
  const size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return {};
  const size_t end = xml.find(close, begin);
  if (end == std::string_view::npos) return {};
  return xml.substr(begin + open.size(), end - begin - open.size());
}

Failure failure_of_response(const ResponseHead& head, std::string_view body, std::span<const std::string> secrets) {
  Failure failure;
  failure.status = head.status;
  failure.error_code = quoted(xml_element(body, "Code"), secrets);
  std::string said = failure.error_code;
  const std::string message = quoted(xml_element(body, "Message"), secrets);
  if (!message.empty()) said += said.empty() ? message : ": " + message;
  const bool is_text = !body.empty() && body.front() != '<';
  if (said.empty() && is_text) said = quoted(body, secrets);
  failure.reason = cat("the server answered with status ", head.status, meaning_of(head.status).text);
  if (!said.empty()) failure.reason += ", " + said;
  failure.code = errno_of_status(head.status, failure.error_code);
  failure.may_retry = is_temporary(head.status, failure.error_code);
  if (const std::string* value = head.find("retry-after")) failure.retry_after = parse_retry_after(*value);
  return failure;
}

Failure failure_of_transfer(CURLcode code, std::string_view detail) {
  Failure failure;
  failure.code = EIO;
  failure.may_retry = true;
  failure.reason = cat("no response: ", quoted(detail.empty() ? curl_easy_strerror(code) : detail, {}));
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      failure.code = ETIMEDOUT;
      failure.is_connecting = true;  // the only timeout that is curl's
      break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      failure.is_connecting = true;
      break;
    case CURLE_PARTIAL_FILE:
      failure.reason = "the response was cut off";
      break;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
      break;
    default:
      failure.may_retry = false;
  }
  return failure;
}

}  // namespace atompack::io::fetch::http
