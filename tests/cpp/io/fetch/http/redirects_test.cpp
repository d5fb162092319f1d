#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"

namespace atompack::test {
namespace {

const std::string kTarget = numbered_object();

HttpOptions options_with_token() {
  HttpOptions options = fast_options();
  options.headers = {{"X-Own", "mine"}};
  options.credentials = [] { return Credentials{"", "", "", "TOKEN", {}}; };
  return options;
}

TEST(HttpRedirects, TheFinalAddressIsRememberedAndGetsNoSecrets) {
  ScriptedServer files([](const ReceivedRequest& request) { return serve(request, kTarget); });
  ScriptedServer hub([&](const ReceivedRequest& request) {
    return request.target == "/resolve" ? reply(307, {{"Location", "/step"}})
                                        : reply(302, {{"Location", files.url("/signed?sig=1")}});
  });
  const OpenObject opened = HttpStore(options_with_token()).open(hub.url("/resolve"), 10);
  EXPECT_EQ(text_of(opened.first), kTarget.substr(0, 10));
  EXPECT_EQ(read_text(opened, 10, 20), kTarget.substr(10, 20));
  EXPECT_EQ(read_text(opened, 30, 20), kTarget.substr(30, 20));
  ASSERT_EQ(hub.requests().size(), 2U);
  for (const ReceivedRequest& request : hub.requests()) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer TOKEN");
    EXPECT_EQ(request.headers.at("x-own"), "mine");
  }
  ASSERT_EQ(files.requests().size(), 3U);
  for (const ReceivedRequest& request : files.requests()) {
    EXPECT_EQ(request.target, "/signed?sig=1");
    EXPECT_FALSE(request.headers.contains("authorization"));
    EXPECT_FALSE(request.headers.contains("x-own"));
  }
  EXPECT_EQ(files.requests().back().headers.at("if-match"), "\"v1\"");
}

TEST(HttpRedirects, AnExpiredAddressIsResolvedAgainByOneCall) {
  for (const int status : {401, 403, 410}) {
    std::atomic<int> generation{1};
    ScriptedServer files([&](const ReceivedRequest& request) {
      return request.target == cat("/", generation.load()) ? serve(request, kTarget) : reply(status);
    });
    ScriptedServer hub([&](const ReceivedRequest& request) {
      EXPECT_FALSE(request.headers.contains("if-match"));
      ScriptedReply answer = reply(302, {{"Location", files.url(cat("/", generation.load()))}});
      answer.delay = milliseconds(30);
      return answer;
    });
    const OpenObject opened = HttpStore(options_with_token()).open(hub.url(), 10);
    generation = 2;
    std::vector<Read> reads(20);
    for (size_t i = 0; i < reads.size(); ++i) start_read(opened, i, 5, reads[i]);
    for (size_t i = 0; i < reads.size(); ++i) {
      reads[i].end.wait();
      EXPECT_EQ(reads[i].bytes, kTarget.substr(i, 5));
    }
    EXPECT_EQ(hub.requests().size(), 2U);
  }
}

TEST(HttpRedirects, AnAddressThatStaysForbiddenIsAnError) {
  std::atomic<bool> is_forbidden{false};
  ScriptedServer files(
      [&](const ReceivedRequest& request) { return is_forbidden ? reply(403) : serve(request, kTarget); });
  ScriptedServer hub([&](const ReceivedRequest&) { return reply(302, {{"Location", files.url()}}); });
  const OpenObject opened = HttpStore(fast_options()).open(hub.url(), 10);
  is_forbidden = true;
  std::vector<Read> reads(5);
  for (Read& read : reads) start_read(opened, 1, 5, read);
  for (Read& read : reads) EXPECT_EQ(io_failure([&] { read.end.wait(); }).code, EACCES);
}

TEST(HttpRedirects, LoopsAndInvalidLocationsAreErrors) {
  ScriptedServer server([](const ReceivedRequest& request) {
    if (request.target == "/loop") return reply(302, {{"Location", "/loop"}});
    return reply(302, {{"Location", "gopher://secret/"}});
  });
  const HttpStore store(fast_options());
  const IoFailure loop = io_failure([&] { store.open(server.url("/loop"), 10); });
  EXPECT_EQ(loop.code, EIO);
  EXPECT_EQ(loop.message, server.url("/loop") + ": expected at most 5 redirects, got more");
  EXPECT_EQ(server.requests().size(), 6U);
  EXPECT_EQ(io_failure([&] { store.open(server.url("/x"), 10); }).message,
            server.url("/x") + ": the server redirects to an invalid address: expected a http:// or https:// URL");
}

TEST(HttpRedirects, OtherRequestsFollowOnlyIfTheyChangeNothing) {
  ScriptedServer server([](const ReceivedRequest& request) {
    return request.target == "/a" ? reply(302, {{"Location", "/b"}}) : reply(200, {}, "found");
  });
  const HttpStore store(fast_options());
  EXPECT_EQ(store.request({.url = server.url("/a")}).body, "found");
  EXPECT_EQ(store.request({.method = "PUT", .url = server.url("/a"), .body = "x"}).status, 302);
}

TEST(HttpRedirects, TheRegionOfABucketIsLearnedOnce) {
  ScriptedServer server([](const ReceivedRequest& request) {
    const bool is_right = request.headers.at("authorization").find("/eu-west-1/s3/") != std::string::npos;
    if (is_right) return serve(request, kTarget);
    return reply(request.target == "/b/malformed" ? 400 : 301, {{"x-amz-bucket-region", "eu-west-1"}});
  });
  HttpOptions options = fast_options();
  options.endpoint = server.url("");
  options.credentials = [] { return Credentials{"A", "S", "", "", {}}; };
  const HttpStore store(options);
  EXPECT_EQ(text_of(store.open("s3://a/k", 5).first), kTarget.substr(0, 5));
  EXPECT_EQ(server.requests().size(), 2U);
  store.open("s3://a/other", 5);
  EXPECT_EQ(server.requests().size(), 3U);
  store.open("s3://b/malformed", 5);
  EXPECT_EQ(server.requests().size(), 5U);
}

TEST(HttpRedirects, ARegionThatChangesForeverIsAnError) {
  ScriptedServer server(
      [](const ReceivedRequest& request) { return reply(301, {{"x-amz-bucket-region", cat("r-", request.number)}}); });
  HttpOptions options = fast_options();
  options.endpoint = server.url("");
  EXPECT_EQ(io_failure([&] { HttpStore(options).open("s3://a/k", 5); }).code, EIO);
  EXPECT_EQ(server.requests().size(), 2U);
}

}  // namespace
}  // namespace atompack::test
