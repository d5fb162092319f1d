// Helpers of tests that read through an HttpStore.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "io/fetch/answers.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/http/scripted_server.h"

namespace atompack::test {

using io::fetch::OpenObject;
using io::fetch::RangeRequest;
using io::fetch::http::Credentials;
using io::fetch::http::HttpOptions;
using io::fetch::http::HttpStore;
using io::fetch::http::milliseconds;
using io::fetch::http::Request;
using io::fetch::http::Response;

// Times in which something must happen are that much longer where a race detector makes everything slower.
#ifdef __SANITIZE_THREAD__
inline constexpr int kSlowdown = 10;
#else
inline constexpr int kSlowdown = 1;
#endif
constexpr milliseconds within(int n) { return milliseconds(n * kSlowdown); }

// Retries immediately; waits for nothing longer than a second.
inline HttpOptions fast_options() {
  HttpOptions options;
  options.connect_timeout = within(1000);
  options.stall_timeout = within(1000);
  options.retry.first_delay = milliseconds(2);
  options.retry.max_delay = milliseconds(10);
  options.retry.max_retry_after = milliseconds(50);
  options.hedge.multiple = 0;
  return options;
}

// 1,000 different bytes.
inline std::string numbered_object() {
  std::string object;
  for (int i = 0; i < 200; ++i) object += cat(i + 10000);
  return object;
}

inline std::string text_of(const std::vector<std::byte>& bytes) { return std::string(as_text(bytes)); }

struct Read {
  std::string bytes;
  Answers end;
};

// Reads into two spans. The Read must stay where it is until the end.
inline void start_read(const OpenObject& object, uint64_t offset, size_t length, Read& read) {
  read.bytes.assign(length, '?');
  const auto into = std::as_writable_bytes(std::span(read.bytes));
  object.reader->read({offset, {into.first(length / 3), into.subspan(length / 3)}}, read.end.done());
}

inline std::string read_text(const OpenObject& object, uint64_t offset, size_t length) {
  Read read;
  start_read(object, offset, length, read);
  read.end.wait();
  return read.bytes;
}

struct IoFailure {
  int code = 0;
  std::string message;
};

template <typename Action>
IoFailure io_failure(const Action& action) {
  try {
    action();
  } catch (const IoError& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return {-1, cat("an exception of another type: ", error.what())};
  }
  return {0, "nothing was thrown"};
}

}  // namespace atompack::test
