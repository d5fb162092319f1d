#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"

namespace atompack::test {
namespace {

const std::string kShared = numbered_object();

TEST(HttpLimits, RequestsInFlightAreLimitedAndInOrder) {
  std::atomic<int> n_running{0}, n_most{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    const int n = ++n_running;
    for (int most = n_most; n > most && !n_most.compare_exchange_weak(most, n);) {
    }
    std::this_thread::sleep_for(milliseconds(2));
    --n_running;
    return serve(request, kShared);
  });
  HttpOptions options = fast_options();
  options.max_in_flight = 4;
  const OpenObject opened = HttpStore(options).open(server.url(), 10);
  EXPECT_EQ(opened.reader->max_in_flight(), 4U);
  std::vector<Read> reads(100);
  for (size_t i = 0; i < reads.size(); ++i) start_read(opened, i, 5, reads[i]);
  for (size_t i = 0; i < reads.size(); ++i) {
    reads[i].end.wait();
    EXPECT_EQ(reads[i].bytes, kShared.substr(i, 5));
  }
  EXPECT_EQ(n_most, 4);
  EXPECT_LE(server.n_connections(), 5U);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 101U);
  // Requests are sent in order, so only those in flight can be received after a later one.
  std::vector<bool> is_received(reads.size());
  for (size_t i = 1; i < requests.size(); ++i) {
    const size_t offset = std::stoul(requests[i].headers.at("range").substr(6));
    is_received[offset] = true;
    EXPECT_LE(std::count(is_received.begin(), is_received.begin() + static_cast<ptrdiff_t>(offset), false), 3);
  }
}

TEST(HttpLimits, ManyThreadsShareOneStore) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kShared); });
  HttpOptions options = fast_options();
  options.max_in_flight = 16;
  const HttpStore store(options);
  std::vector<std::thread> threads;
  std::atomic<int> n_wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const OpenObject opened = store.open(server.url(cat("/", t)), 10);
      std::vector<Read> reads(50);
      for (size_t i = 0; i < reads.size(); ++i) start_read(opened, i, 7, reads[i]);
      for (size_t i = 0; i < reads.size(); ++i) {
        reads[i].end.wait();
        n_wrong += reads[i].bytes == kShared.substr(i, 7) ? 0 : 1;
      }
      n_wrong += store.request({.url = server.url()}).body == kShared ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
}

HttpOptions hedging_options() {
  HttpOptions options = fast_options();
  options.hedge.multiple = 2;
  options.hedge.min_delay = milliseconds(30);
  options.hedge.min_samples = 32;
  options.stall_timeout = std::chrono::seconds(60);
  return options;
}

void warm_up(const OpenObject& opened) {
  for (int i = 0; i < 40; ++i) read_text(opened, 0, 1);
}

TEST(HttpLimits, ASlowReadIsSentOnceMore) {
  std::atomic<int> n_slow{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kShared);
    // Half of the body, then nothing, for the first of each pair.
    if (request.headers.at("range") == "bytes=100-199" && n_slow++ % 2 == 0) {
      answer.bytes.resize(answer.bytes.size() - 50);
      answer.stalls = true;
    }
    return answer;
  });
  const OpenObject opened = HttpStore(hedging_options()).open(server.url(), 10);
  warm_up(opened);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_text(opened, 100, 100), kShared.substr(100, 100));
  EXPECT_EQ(n_slow, 6);
}

TEST(HttpLimits, TheFirstRequestMayWinOverItsHedge) {
  std::atomic<int> n_slow{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kShared);
    if (request.headers.at("range") == "bytes=100-199") {
      answer.delay = n_slow++ % 2 == 0 ? within(120) : within(2000);
    }
    return answer;
  });
  const OpenObject opened = HttpStore(hedging_options()).open(server.url(), 10);
  warm_up(opened);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read_text(opened, 100, 100), kShared.substr(100, 100));
  EXPECT_LT(std::chrono::steady_clock::now() - start, within(1500));
  EXPECT_EQ(n_slow, 2);
}

TEST(HttpLimits, AFailedHedgeChangesNothing) {
  std::atomic<int> n_slow{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kShared);
    if (request.headers.at("range") != "bytes=100-199") return answer;
    if (n_slow++ > 0) return reply(500);
    answer.delay = within(150);
    return answer;
  });
  const OpenObject opened = HttpStore(hedging_options()).open(server.url(), 10);
  warm_up(opened);
  EXPECT_EQ(read_text(opened, 100, 100), kShared.substr(100, 100));
  EXPECT_GE(n_slow, 2);
}

TEST(HttpLimits, WhatAHedgeWroteIsNotTouchedAgain) {
  std::atomic<int> n_slow{0};
  ScriptedServer server([&](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kShared);
    if (request.headers.at("range") == "bytes=100-199" && n_slow++ == 0) answer.delay = within(150);
    return answer;
  });
  const OpenObject opened = HttpStore(hedging_options()).open(server.url(), 10);
  warm_up(opened);
  Read read;
  start_read(opened, 100, 100, read);
  read.end.wait();
  EXPECT_EQ(n_slow, 2);
  read.bytes.assign(100, '-');  // reused by its owner
  std::this_thread::sleep_for(within(250));
  EXPECT_EQ(read.bytes, std::string(100, '-'));
}

}  // namespace
}  // namespace atompack::test
