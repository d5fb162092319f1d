#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "fork.h"
#include "io/fetch/http/http_store.h"
#include "io/fetch/http/store_fixture.h"
#include "message_of.h"

namespace atompack::test {
namespace {

const std::string kObject = numbered_object();

TEST(HttpReading, OpenTellsTheVersionAndTheFirstBytes) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kObject); });
  const HttpStore store(fast_options());
  const OpenObject opened = store.open(server.url(), 100);
  EXPECT_EQ(opened.version.size, kObject.size());
  EXPECT_EQ(opened.version.etag, "\"v1\"");
  EXPECT_EQ(text_of(opened.first), kObject.substr(0, 100));
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(server.requests()[0].headers.at("range"), "bytes=0-99");
  EXPECT_FALSE(server.requests()[0].headers.contains("authorization"));
  EXPECT_EQ(text_of(store.open(server.url(), 5000).first), kObject);
  EXPECT_EQ(text_of(store.open(server.url(), 0).first), "");
}

TEST(HttpReading, RangesArePinnedAndScattered) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kObject); });
  const OpenObject opened = HttpStore(fast_options()).open(server.url(), 10);  // the reader keeps what it needs
  EXPECT_EQ(read_text(opened, 0, 1), kObject.substr(0, 1));
  EXPECT_EQ(read_text(opened, 123, 456), kObject.substr(123, 456));
  EXPECT_EQ(read_text(opened, 990, 10), kObject.substr(990));
  EXPECT_EQ(read_text(opened, 5, 0), "");
  EXPECT_EQ(server.requests().back().headers.at("range"), "bytes=990-999");
  EXPECT_EQ(server.requests().back().headers.at("if-match"), "\"v1\"");
  EXPECT_EQ(server.n_connections(), 1U);
  EXPECT_THROW(read_text(opened, 990, 11), std::out_of_range);
  EXPECT_THROW(read_text(opened, UINT64_MAX, 2), std::out_of_range);
}

TEST(HttpReading, EmptyObjects) {
  for (const auto& answer :
       {reply(416, {{"Content-Range", "bytes */0"}}), reply(416), reply(200), reply(200, {{"ETag", "\"e\""}})}) {
    ScriptedServer server([&](const ReceivedRequest&) { return answer; });
    const OpenObject opened = HttpStore(fast_options()).open(server.url(), 100);
    EXPECT_EQ(opened.version.size, 0U);
    EXPECT_TRUE(opened.first.empty());
  }
}

TEST(HttpReading, ServersThatIgnoreRanges) {
  ScriptedServer server([](const ReceivedRequest&) { return reply(200, {{"ETag", "\"v1\""}}, kObject); });
  const OpenObject opened = HttpStore(fast_options()).open(server.url(), 100);
  EXPECT_EQ(opened.version.size, kObject.size());
  EXPECT_EQ(text_of(opened.first), kObject.substr(0, 100));
  EXPECT_EQ(read_text(opened, 500, 100), kObject.substr(500, 100));
  EXPECT_EQ(server.n_connections(), 1U);  // the rest is small
}

TEST(HttpReading, LargeObjectsWithoutRangesAreNotReceivedWhole) {
  const std::string object(3 << 20, 'x');
  ScriptedServer server([&](const ReceivedRequest&) { return reply(200, {{"ETag", "\"v1\""}}, object); });
  const OpenObject opened = HttpStore(fast_options()).open(server.url(), 100);
  EXPECT_EQ(opened.version.size, object.size());
  EXPECT_EQ(read_text(opened, 1000, 10), std::string(10, 'x'));
  EXPECT_EQ(server.n_connections(), 2U);
  const IoFailure failure = io_failure([&] { read_text(opened, 2 << 20, 10); });
  EXPECT_EQ(failure.code, EIO);
  EXPECT_EQ(failure.message, server.url() +
                                 ": the server does not support ranges: expected bytes 2097152-2097161, got "
                                 "the whole object");
}

TEST(HttpReading, WholeObjectsWithoutLength) {
  const auto chunked = [](const ReceivedRequest& request) {
    const std::string body = request.number == 2 ? "5\r\n01234\r\n0\r\n\r\n" : "a\r\n0123456789\r\n0\r\n\r\n";
    return ScriptedReply{.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"v\"\r\n\r\n" + body};
  };
  ScriptedServer server(chunked);
  HttpOptions options = fast_options();
  options.retry.max_attempts = 1;
  const HttpStore store(options);
  const OpenObject opened = store.open(server.url(), 100);
  EXPECT_EQ(opened.version.size, 10U);
  EXPECT_EQ(read_text(opened, 3, 4), "3456");
  EXPECT_EQ(io_failure([&] { read_text(opened, 3, 4); }).message,
            server.url() + ": the response was cut off: expected 4 bytes, got 2");
  EXPECT_EQ(io_failure([&] { store.open(server.url(), 5); }).message,
            server.url() + ": the server does not tell the size of the object");
}

TEST(HttpReading, PartsWithStatus200) {
  ScriptedServer server([](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kObject);
    answer.bytes.replace(answer.bytes.find("206"), 3, "200");
    return answer;
  });
  const OpenObject opened = HttpStore(fast_options()).open(server.url(), 100);
  EXPECT_EQ(opened.version.size, kObject.size());
  EXPECT_EQ(read_text(opened, 500, 100), kObject.substr(500, 100));
}

TEST(HttpReading, WrongPartsAreErrors) {
  const auto failure_for = [](const std::string& content_range, const std::string& body) {
    ScriptedServer server([&](const ReceivedRequest& request) {
      if (request.number == 0) return serve(request, kObject);
      return reply(206, {{"ETag", "\"v1\""}, {"Content-Range", content_range}}, body);
    });
    const OpenObject opened = HttpStore(fast_options()).open(server.url(), 100);
    const IoFailure failure = io_failure([&] { read_text(opened, 10, 5); });
    EXPECT_EQ(server.requests().size(), 2U);
    return cat(failure.code, failure.message.substr(server.url().size()));
  };
  EXPECT_EQ(failure_for("bytes 11-15/1000", "12345"), cat(EIO, ": expected bytes 10-14, got 11-15"));
  EXPECT_EQ(failure_for("bytes 10-13/1000", "1234"), cat(EIO, ": expected bytes 10-14, got 10-13"));
  EXPECT_EQ(failure_for("bytes 10-14/1000", "123456"), cat(EIO, ": expected bytes 10-14, got a longer body"));
  EXPECT_EQ(failure_for("bytes 10-14/999", "12345"),
            cat(ESTALE, ": the object has changed: expected 1000 bytes, got 999"));
  EXPECT_EQ(failure_for("nonsense", "12345"),
            cat(EIO, ": expected bytes 10-14, got a part without a valid Content-Range"));
}

TEST(HttpReading, ChangedObjectsAreStale) {
  for (const bool obeys_if_match : {true, false}) {
    std::atomic<bool> is_changed{false};
    ScriptedServer server([&](const ReceivedRequest& request) {
      ReceivedRequest seen = request;
      if (!obeys_if_match) seen.headers.erase("if-match");
      return serve(seen, kObject, is_changed ? "\"v2\"" : "\"v1\"");
    });
    const HttpStore store(fast_options());
    const OpenObject opened = store.open(server.url(), 100);
    EXPECT_EQ(read_text(opened, 1, 2), kObject.substr(1, 2));
    is_changed = true;
    const IoFailure failure = io_failure([&] { read_text(opened, 1, 2); });
    EXPECT_EQ(failure.code, ESTALE) << failure.message;
    EXPECT_NE(failure.message.find("changed"), std::string::npos) << failure.message;
    EXPECT_EQ(read_text(store.open(server.url(), 1), 1, 2), kObject.substr(1, 2));
  }
}

TEST(HttpReading, ObjectsWithoutETagAreKnownByTheirDateAndSize) {
  std::atomic<int> day{1};
  std::string object = kObject;
  ScriptedServer server([&](const ReceivedRequest& request) {
    EXPECT_FALSE(request.headers.contains("if-match"));
    ScriptedReply answer = serve(request, object);
    const size_t at = answer.bytes.find("ETag: \"v1\"");
    if (at != std::string::npos) answer.bytes.replace(at, 10, cat("Last-Modified: ", day.load()));
    return answer;
  });
  const HttpStore store(fast_options());
  const OpenObject opened = store.open(server.url(), 100);
  EXPECT_EQ(opened.version.modified, "1");
  EXPECT_EQ(read_text(opened, 1, 2), kObject.substr(1, 2));
  day = 2;
  EXPECT_EQ(io_failure([&] { read_text(opened, 1, 2); }).code, ESTALE);
  day = 1;
  object += "more";
  EXPECT_EQ(io_failure([&] { read_text(opened, 1, 2); }).code, ESTALE);
  object = "short";
  EXPECT_EQ(io_failure([&] { read_text(opened, 100, 2); }).code, ESTALE);  // status 416
}

TEST(HttpReading, NothingIsUsedInAFork) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kObject); });
  auto store = std::make_unique<HttpStore>(fast_options());
  OpenObject opened = store->open(server.url(), 100);
  EXPECT_TRUE(holds_in_child([&] {
    const std::string refusal = message_of<std::runtime_error>([&] { store->open(server.url(), 100); });
    int n_refused = refusal.find("fork") != std::string::npos ? 1 : 0;
    opened.reader->read({0, {}}, [&](const std::exception_ptr& error) { n_refused += error != nullptr ? 1 : 0; });
    opened.reader.reset();
    store.reset();
    return n_refused == 2;
  }));
  EXPECT_EQ(read_text(opened, 123, 456), kObject.substr(123, 456));
  EXPECT_EQ(server.n_connections(), 1U);  // the child left it alone
}

TEST(HttpReading, DestructionEndsWhatIsInFlight) {
  ScriptedServer server([](const ReceivedRequest& request) {
    ScriptedReply answer = serve(request, kObject);
    if (request.number > 0) answer.delay = std::chrono::seconds(60);
    return answer;
  });
  HttpOptions options = fast_options();
  options.max_in_flight = 2;
  options.stall_timeout = std::chrono::seconds(60);
  std::vector<Read> reads(5);
  {
    const OpenObject opened = HttpStore(options).open(server.url(), 100);
    for (Read& read : reads) start_read(opened, 1, 2, read);
    while (server.requests().size() < 3) std::this_thread::yield();
  }
  for (Read& read : reads) EXPECT_EQ(io_failure([&] { read.end.wait(); }).code, ECANCELED);
}

TEST(HttpReading, TheLastReaderMayDieInItsOwnCallback) {
  ScriptedServer server([](const ReceivedRequest& request) { return serve(request, kObject); });
  auto opened = std::make_unique<OpenObject>(HttpStore(fast_options()).open(server.url(), 100));
  Answers end;
  std::vector<std::byte> memory(10);
  auto* const reader = opened->reader.get();
  reader->read({0, {std::span(memory)}}, [&, done = end.done()](const std::exception_ptr&) {
    opened.reset();
    done(nullptr);
  });
  end.wait();
  EXPECT_EQ(text_of(memory), kObject.substr(0, 10));
}

}  // namespace
}  // namespace atompack::test
