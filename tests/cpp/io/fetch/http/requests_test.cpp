#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>

#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"
#include "io/temporary_folder.h"
#include "message_of.h"
#include "threads/process.h"

namespace atompack::test {
namespace {

using io::fetch::http::FilePart;

TEST(HttpRequests, MethodsQueriesAndBodies) {
  ScriptedServer server([](const ReceivedRequest& request) {
    return reply(200, {{"X-Seen", request.method + " " + request.target}},
                 request.method == "HEAD" ? "" : request.body);
  });
  const HttpStore store(fast_options());
  const std::string large(3'000'000, 'b');
  for (const std::string method : {"PUT", "POST", "DELETE", "GET", "HEAD", "PUT", "GET"}) {
    const bool has_body = method == "PUT" || method == "POST";
    const Response response = store.request({.method = method,
                                             .url = server.url("/a?x=1"),
                                             .query = {{"b", "1/2"}, {"a", ""}},
                                             .headers = {{"Content-Type", "text/plain"}},
                                             .body = has_body ? large : ""});
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.n_attempts, 1U);
    EXPECT_EQ(response.error_code, 0);
    EXPECT_EQ(response.body, has_body ? large : "") << method;
    const auto seen = std::ranges::find(response.headers, "x-seen", &std::pair<std::string, std::string>::first);
    ASSERT_NE(seen, response.headers.end());
    EXPECT_EQ(seen->second, method + " /a?x=1&a=&b=1%2F2");
    EXPECT_EQ(server.requests().back().headers.at("content-type"), "text/plain");
    EXPECT_FALSE(server.requests().back().headers.contains("expect"));
    EXPECT_EQ(server.requests().back().headers.contains("content-length"), has_body) << method;
  }
  EXPECT_EQ(store.request({.method = "PUT", .url = server.url()}).body, "");
  EXPECT_EQ(server.requests().back().headers.at("content-length"), "0");
  EXPECT_EQ(server.n_connections(), 1U);
}

TEST(HttpRequests, BodiesComeFromPartsOfFiles) {
  ScriptedServer server(
      [](const ReceivedRequest& request) { return request.number == 0 ? reply(500) : reply(200, {}, request.body); });
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/part";
  std::ofstream(path) << numbered_object();
  const HttpStore store(fast_options());
  const Response response = store.request({.method = "PUT", .url = server.url(), .file = FilePart{path, 100, 250}});
  EXPECT_EQ(response.body, numbered_object().substr(100, 250));
  EXPECT_EQ(response.n_attempts, 2U);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { store.request({.method = "PUT", .url = server.url(), .file = FilePart{path, 900, 101}}); }),
            path + ": expected a range of 1000 bytes, got 101 at 900");
  EXPECT_EQ(io_failure([&] {
              store.request({.method = "PUT", .url = server.url(), .file = FilePart{path + "x", 0, 1}});
            }).code,
            ENOENT);
}

TEST(HttpRequests, EveryStatusIsAnAnswer) {
  ScriptedServer server([](const ReceivedRequest& request) {
    if (request.target == "/busy") return reply(503, {}, "<Error><Code>SlowDown</Code></Error>");
    if (request.target == "/raced")
      return request.number % 2 == 0 ? ScriptedReply{.bytes = "", .closes = true} : reply(412);
    return reply(404, {}, "nothing here");
  });
  HttpOptions options = fast_options();
  options.retry.max_attempts = 2;
  const HttpStore store(options);
  const Response missing = store.request({.url = server.url()});
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "nothing here");
  EXPECT_EQ(missing.error_code, ENOENT);
  EXPECT_EQ(missing.n_attempts, 1U);
  const Response busy = store.request({.url = server.url("/busy")});
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.n_attempts, 2U);
  EXPECT_EQ(io_failure([&] { check_response(busy, server.url("/busy")); }).code, EIO);
  const size_t n = server.requests().size();
  if (n % 2 == 1) store.request({.url = server.url()});
  const Response raced =
      store.request({.method = "PUT", .url = server.url("/raced"), .headers = {{"If-None-Match", "*"}}});
  EXPECT_EQ(raced.status, 412);
  EXPECT_EQ(raced.n_attempts, 2U);
  EXPECT_EQ(io_failure([&] { check_response(raced, server.url("/raced")); }).code, ESTALE);
}

TEST(HttpRequests, ResponsesAreBounded) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(200, {}, std::string(1000, 'x')); });
  const HttpStore store(fast_options());
  EXPECT_EQ(store.request({.url = server.url(), .max_response = 1000}).body.size(), 1000U);
  EXPECT_EQ(io_failure([&] { store.request({.url = server.url(), .max_response = 999}); }).message,
            server.url() + ": expected a response of at most 999 bytes");
}

TEST(HttpRequests, WrongArgumentsAreRefused) {
  const HttpStore store(fast_options());
  const auto refused = [&](Request request) {
    return message_of<std::invalid_argument>([&] { store.request(std::move(request)); });
  };
  EXPECT_EQ(refused({.method = "PATCH", .url = "http://h/"}), "method: expected GET, HEAD, PUT, POST or DELETE");
  EXPECT_EQ(refused({.url = "file:///etc/passwd"}),
            "expected a URL that begins with s3://, gs://, http:// or https://");
  EXPECT_EQ(refused({.url = "http://h/", .headers = {{"X", "a\r\nY: b"}}}),
            "headers: expected a value of one line for 'X'");
  EXPECT_EQ(refused({.url = "http://h/", .headers = {{"X: a\r\nY", "b"}}}),
            "headers: expected names of letters, digits and dashes");
  HttpOptions options;
  options.max_in_flight = 0;
  EXPECT_THROW(HttpStore{options}, std::invalid_argument);
}

TEST(HttpRequests, WaitingCanBeInterrupted) {
  struct Interrupt {};
  static std::atomic<int> n_checks{0};
  ScriptedServer server([](const ReceivedRequest&) { return ScriptedReply{.bytes = "", .stalls = true}; });
  HttpOptions options = fast_options();
  options.stall_timeout = std::chrono::seconds(60);
  threads::set_interruption_check([] {
    if (++n_checks == 2) throw Interrupt();
  });
  const HttpStore store(options);
  EXPECT_THROW(store.request({.url = server.url()}), Interrupt);
  n_checks = 0;
  EXPECT_THROW(store.open(server.url(), 100), Interrupt);
  threads::set_interruption_check(nullptr);
}

}  // namespace
}  // namespace atompack::test
