#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"

namespace atompack::test {
namespace {

using std::chrono::steady_clock;
const std::string kNumbers = numbered_object();

TEST(HttpFaults, TemporaryFailuresAreRetried) {
  const std::string good = serve({.headers = {{"range", "bytes=10-14"}}}, kNumbers).bytes;
  const std::vector<ScriptedReply> faults{
      reply(429),
      reply(500),
      reply(502),
      reply(503),
      reply(504),
      reply(408),
      reply(400, {}, "<Error><Code>RequestTimeout</Code></Error>"),
      {.bytes = "", .closes = true},
      {.bytes = "HTTP/1.1 206 Partial", .closes = true},
      {.bytes = good.substr(0, good.size() - 2), .closes = true},
      {.bytes = good.substr(0, good.size() - 2), .stalls = true},
      {.bytes = good.substr(0, 60), .stalls = true},
  };
  std::atomic<size_t> n_ranges{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    if (request.number == 0) return serve(request, kNumbers);
    const size_t n = n_ranges++;
    return n % 2 == 0 ? faults[n / 2] : serve(request, kNumbers);
  });
  HttpOptions options = fast_options();
  options.stall_timeout = milliseconds(100);
  const OpenObject opened = HttpStore(options).open(server.url(), 1);
  for (size_t i = 0; i < faults.size(); ++i) EXPECT_EQ(read_text(opened, 10, 5), kNumbers.substr(10, 5)) << i;
  EXPECT_EQ(server.requests().size(), 1 + 2 * faults.size());
}

TEST(HttpFaults, AttemptsAreLimited) {
  ScriptedServer server([](const ReceivedRequest&) {
    return reply(503, {},
                 "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>");
  });
  HttpOptions options = fast_options();
  options.retry.max_attempts = 3;
  const IoFailure failure = io_failure([&] { HttpStore(options).open(server.url("/a?secret=1"), 1); });
  EXPECT_EQ(failure.code, EIO);
  EXPECT_EQ(failure.message, server.url("/a") +
                                 ": the server answered with status 503 (unavailable), SlowDown: Reduce "
                                 "your rate., after 3 attempts");
  EXPECT_EQ(server.requests().size(), 3U);
}

TEST(HttpFaults, TheTotalTimeIsLimited) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(503); });
  HttpOptions options = fast_options();
  options.retry.max_attempts = 1000000;
  options.retry.max_total = within(60);
  const auto start = steady_clock::now();
  EXPECT_EQ(io_failure([&] { HttpStore(options).open(server.url(), 1); }).code, EIO);
  EXPECT_GT(server.requests().size(), 2U);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(HttpFaults, RetryAfterIsHonouredWithinBounds) {
  ScriptedServer server([](const ReceivedRequest& request) {
    return request.number == 0 ? reply(503, {{"Retry-After", "1000"}}) : serve(request, kNumbers);
  });
  HttpOptions options = fast_options();
  options.retry.max_retry_after = milliseconds(150);
  const auto start = steady_clock::now();
  HttpStore(options).open(server.url(), 1);
  EXPECT_GE(steady_clock::now() - start, milliseconds(150));
}

TEST(HttpFaults, StatusesBecomeErrors) {
  const std::pair<int, int> expected[] = {{404, ENOENT}, {410, ENOENT}, {401, EACCES}, {403, EACCES},
                                          {412, ESTALE}, {400, EIO},    {301, EIO},    {501, EIO}};
  for (const auto& [status, code] : expected) {
    ScriptedServer server([status = status](const ReceivedRequest&) { return reply(status, {}, "<html>no</html>"); });
    const IoFailure failure = io_failure([&] { HttpStore(fast_options()).open(server.url(), 1); });
    EXPECT_EQ(failure.code, code) << status;
    EXPECT_NE(failure.message.find(cat("status ", status)), std::string::npos) << failure.message;
    EXPECT_EQ(failure.message.find("html"), std::string::npos) << failure.message;
    EXPECT_EQ(server.requests().size(), 1U);
  }
}

TEST(HttpFaults, TimeoutsAreTimeouts) {
  ScriptedServer server([](const ReceivedRequest&) { return ScriptedReply{.bytes = "", .stalls = true}; });
  HttpOptions options = fast_options();
  options.stall_timeout = milliseconds(50);
  options.retry.max_attempts = 2;
  const IoFailure failure = io_failure([&] { HttpStore(options).open(server.url(), 1); });
  EXPECT_EQ(failure.code, ETIMEDOUT);
  EXPECT_EQ(failure.message, server.url() + ": the transfer stalled for 50 ms, after 2 attempts");
}

TEST(HttpFaults, SlowButSteadyAnswersSucceed) {
  ScriptedServer server([](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kNumbers);
    answer.delay = milliseconds(150);
    return answer;
  });
  HttpOptions options = fast_options();
  EXPECT_EQ(text_of(HttpStore(options).open(server.url(), 4).first), kNumbers.substr(0, 4));
}

TEST(HttpFaults, ServersThatAreNotThere) {
  std::string url;
  {
    const ScriptedServer server([](const ReceivedRequest&) { return reply(200); });
    url = server.url();
  }
  const HttpStore store(fast_options());
  const IoFailure refused = io_failure([&] { store.open(url, 1); });
  EXPECT_EQ(refused.code, EIO);
  EXPECT_NE(refused.message.find("connect"), std::string::npos) << refused.message;
  EXPECT_NE(refused.message.find("after 4 attempts"), std::string::npos) << refused.message;
  const IoFailure unknown = io_failure([&] { store.open("http://no-such-host.invalid/x?secret", 1); });
  EXPECT_EQ(unknown.code, EIO);
  EXPECT_NE(unknown.message.find("resolve"), std::string::npos) << unknown.message;
  EXPECT_EQ(unknown.message.find("secret"), std::string::npos) << unknown.message;
}

TEST(HttpFaults, ServersThatSpeakNoTls) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(200); });
  const IoFailure failure = io_failure([&] { HttpStore(fast_options()).open("https://" + server.host() + "/x", 1); });
  EXPECT_EQ(failure.code, EIO);
  EXPECT_NE(failure.message.find("no response"), std::string::npos) << failure.message;
}

TEST(HttpFaults, MessagesContainNoSecrets) {
  // A server that repeats everything.
  ScriptedServer server([](const ReceivedRequest& request) {
    std::string all = request.target;
    for (const auto& [name, value] : request.headers) all += " " + value;
    return reply(403, {}, "<Error><Code>Denied" + all + "</Code><Message>" + all + "</Message></Error>");
  });
  HttpOptions options = fast_options();
  options.endpoint = server.url("");
  options.headers = {{"X-Key", "HEADERVALUE"}};
  options.credentials = [] { return Credentials{"ACCESSKEY", "SECRETKEY", "SESSIONTOKEN", "", {}}; };
  const auto check = [](const std::string& message) {
    for (const char* secret :
         {"ACCESSKEY", "SECRETKEY", "SESSIONTOKEN", "HEADERVALUE", "Signature=", "BEARER", "SAS"}) {
      EXPECT_EQ(message.find(secret), std::string::npos) << secret << " in " << message;
    }
    EXPECT_NE(message.find("Denied"), std::string::npos) << message;
    EXPECT_LT(message.size(), 700U);
  };
  const HttpStore store(options);
  check(io_failure([&] { store.open("s3://bucket/key", 1); }).message);
  const Response response = store.request({.url = "s3://bucket/key", .query = {{"x", "SASSASSASSAS"}}});
  check(io_failure([&] { check_response(response, "s3://bucket/key"); }).message);
  options.credentials = [] { return Credentials{"", "", "", "BEARERTOKEN", {}}; };
  const HttpStore with_bearer(options);
  check(io_failure([&] { with_bearer.open(server.url("/a?sig=SASSASSASSAS"), 1); }).message);
}

TEST(HttpFaults, LongAndUnprintableMessagesAreShortened) {
  ScriptedServer server(
      [](const ReceivedRequest&) { return reply(400, {}, "a\nb\x01\xFF" + std::string(100000, 'x')); });
  const std::string message = io_failure([&] { HttpStore(fast_options()).open(server.url(), 1); }).message;
  EXPECT_NE(message.find(", a b ?xxx"), std::string::npos) << message;
  EXPECT_LT(message.size(), 400U);
}

}  // namespace
}  // namespace atompack::test
