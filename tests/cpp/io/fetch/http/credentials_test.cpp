#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "io/fetch/http/credentials_cache.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"

namespace atompack::test {
namespace {

using std::chrono::system_clock;
const std::string kSecured = numbered_object();

// Answers only if the session token is of the given generation.
ScriptedServer::Script secured(const std::atomic<int>& generation, int status, const std::string& code) {
  return [&generation, status, code](const ReceivedRequest& request) {
    const auto token = request.headers.find("x-amz-security-token");
    const bool is_good = token != request.headers.end() && token->second == cat(generation.load());
    return is_good ? serve(request, kSecured) : reply(status, {}, "<Error><Code>" + code + "</Code></Error>");
  };
}

// Functions that outlive it, as those of a store that is gone while one runs.
class Provider {
 public:
  struct State {
    std::atomic<int> n_calls{0};
    std::optional<std::chrono::seconds> lifetime;
    milliseconds duration{0};
  };

  State* operator->() const { return state_.get(); }
  io::fetch::http::CredentialsProvider function() const {
    return [state = state_] {
      std::this_thread::sleep_for(state->duration);
      const int n = ++state->n_calls;
      Credentials credentials{"A", "S", cat(n), "", {}};
      const std::chrono::duration<double> since_1970 = system_clock::now().time_since_epoch();
      if (state->lifetime) credentials.expiry = (since_1970 + *state->lifetime).count();
      return credentials;
    };
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

HttpOptions signed_options(const ScriptedServer& server, const Provider& provider) {
  HttpOptions options = fast_options();
  options.endpoint = server.url("");
  options.credentials = provider.function();
  return options;
}

TEST(HttpCredentials, AreFetchedOnceForManyRequests) {
  const std::atomic<int> generation{1};
  ScriptedServer server(secured(generation, 403, "AccessDenied"));
  Provider provider;
  provider->duration = milliseconds(20);
  const OpenObject opened = HttpStore(signed_options(server, provider)).open("s3://b/k", 5);
  std::vector<Read> reads(30);
  for (Read& read : reads) start_read(opened, 1, 5, read);
  for (Read& read : reads) read.end.wait();
  EXPECT_EQ(provider->n_calls, 1);
  EXPECT_EQ(server.requests()[0].headers.at("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  EXPECT_EQ(server.requests()[0].target, "/b/k");
}

TEST(HttpCredentials, RefusedOnesAreFetchedAgain) {
  const std::tuple<int, std::string> refusals[] = {{403, "AccessDenied"}, {401, ""}, {400, "ExpiredToken"}};
  for (const auto& [status, code] : refusals) {
    std::atomic<int> generation{1};
    ScriptedServer server(secured(generation, status, code));
    Provider provider;
    const OpenObject opened = HttpStore(signed_options(server, provider)).open("s3://b/k", 5);
    generation = 2;
    std::vector<Read> reads(10);
    for (Read& read : reads) start_read(opened, 1, 5, read);
    for (Read& read : reads) read.end.wait();
    EXPECT_EQ(provider->n_calls, 2);
    generation = 100;
    const IoFailure failure = io_failure([&] { read_text(opened, 1, 5); });
    EXPECT_EQ(failure.code, EACCES) << failure.message;
    EXPECT_EQ(provider->n_calls, 3);
  }
}

TEST(HttpCredentials, RefusalsOfTheSameOnesAreErrors) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(403); });
  HttpOptions options = fast_options();
  options.endpoint = server.url("");
  std::atomic<int> n_calls{0};
  options.credentials = [&] {
    ++n_calls;
    return Credentials{"A", "S", "", "", {}};
  };
  const HttpStore store(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(io_failure([&] { store.open("s3://b/k", 5); }).code, EACCES);
  EXPECT_EQ(server.requests().size(), 3U);
  EXPECT_EQ(n_calls, 2);
}

TEST(HttpCredentials, AreRenewedBeforeTheyExpire) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kSecured); });
  Provider provider;
  provider->lifetime = std::chrono::seconds(60);
  const HttpStore store(signed_options(server, provider));
  const OpenObject opened = store.open("s3://b/k", 5);
  for (int i = 0; i < 1000 && server.requests().back().headers.at("x-amz-security-token") == "1"; ++i) {
    read_text(opened, 1, 5);
  }
  EXPECT_NE(server.requests().back().headers.at("x-amz-security-token"), "1");
}

// A provider in Python may collect garbage, and so drop what it works for.
TEST(HttpCredentials, TheProviderMayDropTheLastOwner) {
  std::unique_ptr<io::fetch::http::CredentialsCache> cache;
  std::promise<void> is_made, is_dropped;
  std::atomic<int> n_woken{0};
  cache = std::make_unique<io::fetch::http::CredentialsCache>(
      [&]() -> Credentials {
        is_made.get_future().wait();
        cache.reset();
        is_dropped.set_value();
        return {"A", "S", "", "", {}};
      },
      [&] { ++n_woken; });
  EXPECT_EQ(cache->current(), nullptr);
  is_made.set_value();
  is_dropped.get_future().wait();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(n_woken, 0) << "there is nobody left";
}

TEST(HttpCredentials, AProviderThatHangsKeepsNobody) {
  std::promise<void> is_called, ends, is_left;
  {
    io::fetch::http::CredentialsCache cache(
        [&]() -> Credentials {
          is_called.set_value();
          ends.get_future().wait();
          is_left.set_value_at_thread_exit();
          throw std::runtime_error("nobody asks");
        },
        [] { ADD_FAILURE() << "there is nobody left"; });
    EXPECT_EQ(cache.current(), nullptr);
    is_called.get_future().wait();
  }
  ends.set_value();
  is_left.get_future().wait();
}

TEST(HttpCredentials, BodiesAreSignedByTheirDigest) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(200); });
  Provider provider;
  const HttpStore store(signed_options(server, provider));
  store.request({.method = "PUT", .url = "s3://b/k", .body = "abc"});
  EXPECT_EQ(server.requests().back().headers.at("x-amz-content-sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  store.request({.url = "s3://b", .query = {{"list-type", "2"}}});
  EXPECT_EQ(server.requests().back().headers.at("x-amz-content-sha256"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(server.requests().back().target, "/b?list-type=2");
}

TEST(HttpCredentials, LineBreaksInThemAreRefused) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(200); });
  HttpOptions options = fast_options();
  options.credentials = [] { return Credentials{"", "", "", "TOKEN\r\nX: y", {}}; };
  EXPECT_THROW(HttpStore(options).open(server.url(), 5), std::invalid_argument);
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace atompack::test
