#include "io/fetch/http/address.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "io/fetch/http/response_headers.h"
#include "message_of.h"

namespace atompack::io::fetch::http {
namespace {

std::string url_of(const std::string& url, const HttpOptions& options = {}) {
  const auto name = parse_object_name(url);
  return name ? address_of(*name, options, options.region).url() : parse_address(url).url();
}

TEST(HttpAddress, BucketsAreHostsOrPaths) {
  EXPECT_EQ(url_of("s3://bucket/a/b.atp"), "https://bucket.s3.us-east-1.amazonaws.com/a/b.atp");
  EXPECT_EQ(url_of("s3://bucket"), "https://bucket.s3.us-east-1.amazonaws.com/");
  EXPECT_EQ(url_of("s3://with.dots/a"), "https://s3.us-east-1.amazonaws.com/with.dots/a");
  EXPECT_EQ(url_of("s3://UPPER_case/a"), "https://s3.us-east-1.amazonaws.com/UPPER_case/a");
  EXPECT_EQ(url_of("gs://bucket/a"), "https://storage.googleapis.com/bucket/a");
  HttpOptions options;
  options.region = "cn-north-1";
  EXPECT_EQ(url_of("s3://bucket/a", options), "https://bucket.s3.cn-north-1.amazonaws.com.cn/a");
  options.endpoint = "http://localhost:9000/base/";
  EXPECT_EQ(url_of("s3://bucket/a", options), "http://localhost:9000/base/bucket/a");
  EXPECT_EQ(url_of("s3://bucket", options), "http://localhost:9000/base/bucket");
  EXPECT_EQ(url_of("gs://bucket/a", options), "http://localhost:9000/base/bucket/a");
}

TEST(HttpAddress, KeysAreEncodedOnce) {
  const std::string host = "https://bucket.s3.us-east-1.amazonaws.com/";
  EXPECT_EQ(url_of("s3://bucket/a b+c=d%e?f#g\xC3\xA9/~-._"), host + "a%20b%2Bc%3Dd%25e%3Ff%23g%C3%A9/~-._");
  EXPECT_EQ(url_of("s3://bucket/a%20b"), host + "a%2520b");
  EXPECT_EQ(url_of("s3://bucket//a/../b/"), host + "/a/../b/");
}

TEST(HttpAddress, PlainAddressesStayAsTheyAre) {
  EXPECT_EQ(url_of("HTTPS://Example.org:443/a%20b?x=1%2B2&y#fragment"), "https://example.org/a%20b?x=1%2B2&y");
  EXPECT_EQ(url_of("http://example.org:80"), "http://example.org/");
  EXPECT_EQ(url_of("http://[::1]:8080/a b\xC3\xA9"), "http://[::1]:8080/a%20b%C3%A9");
  EXPECT_EQ(url_of("http://user:secret@example.org/a"), "http://example.org/a");
}

TEST(HttpAddress, OthersAreRefusedWithoutBeingRepeated) {
  for (const char* url :
       {"ftp://u:secret@host/a", "secret", "", "s3://", "s3:///secret", "s3://key:secret@bucket/a", "https://",
        "https:///secret", "http://:80/secret", "http://host:80:80/secret", "http://host:secret/", "http://[::1/secret",
        "http://[::1]secret/", "http://host:/secret", "http://ho st/secret", "http://a\r\nSecret: 1/"}) {
    const std::string message = test::message_of<std::invalid_argument>([&] { url_of(url); });
    EXPECT_TRUE(message.starts_with("expected") || message.starts_with("the URL")) << message;
    EXPECT_EQ(message.find("ecret"), std::string::npos);
  }
}

TEST(HttpAddress, LocationsAreRelativeToTheAddress) {
  const Address base = parse_address("https://h.org/a/b?c");
  EXPECT_EQ(resolve_location(base, "https://other.org/x").url(), "https://other.org/x");
  EXPECT_EQ(resolve_location(base, "//other.org/x").url(), "https://other.org/x");
  EXPECT_EQ(resolve_location(base, "/x?y=http://z").url(), "https://h.org/x?y=http://z");
  EXPECT_EQ(resolve_location(base, "x").url(), "https://h.org/a/x");
  EXPECT_EQ(resolve_location(base, "?x").url(), "https://h.org/a/b?x");
  EXPECT_THROW(resolve_location(base, "ftp://x/"), std::invalid_argument);
}

TEST(HttpAddress, MessagesShowNoSecrets) {
  EXPECT_EQ(shown_url("https://user:pw@h.org/a?X-Amz-Signature=1#f"), "https://h.org/a");
  EXPECT_EQ(shown_url("https://h.org?sig=1"), "https://h.org");
  EXPECT_EQ(shown_url("s3://bucket/a?b#c@d"), "s3://bucket/a?b#c@d");
  EXPECT_EQ(shown_url("s3://key:secret@bucket/a"), "s3://bucket/a");
}

TEST(HttpAddress, QueriesAreSortedAndEncoded) {
  EXPECT_EQ(canonical_query({{"b", "1/2+3=4 5"}, {"a", ""}, {"B", "\xC3\xA9"}}), "B=%C3%A9&a=&b=1%2F2%2B3%3D4%205");
}

TEST(HttpAnswerHead, ContentRanges) {
  const auto good = parse_content_range("bytes 10-19/100");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->first, 10U);
  EXPECT_EQ(good->last, 19U);
  EXPECT_EQ(good->total, 100U);
  EXPECT_EQ(parse_content_range("bytes */0")->total, 0U);
  EXPECT_FALSE(parse_content_range("bytes */0")->first);
  EXPECT_FALSE(parse_content_range("bytes 0-9/*")->total);
  for (const char* bad :
       {"", "bytes", "bytes 10-9/100", "bytes 0-100/100", "bytes -/5", "items 0-1/2", "bytes 0-1", "bytes 0-1/",
        "bytes 18446744073709551616-1/2", "bytes a-b/c", "bytes 0-1/2x", "bytes 5/10"}) {
    EXPECT_FALSE(parse_content_range(bad)) << bad;
  }
}

TEST(HttpAnswerHead, TheLastStatusLineCounts) {
  ResponseHead head;
  for (const char* line : {"HTTP/1.1 100 Continue\r\n", "X: 1\r\n", "\r\n", "HTTP/1.1 206 Partial Content\r\n",
                           "ETag:  \"a\"\r\n", "no colon\r\n", "Content-Length: 5 \r\n", "\r\n"}) {
    head.add_line(line);
  }
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.headers.size(), 2U);
  EXPECT_EQ(head.etag(), "\"a\"");
  EXPECT_EQ(head.content_length(), 5U);
  head.add_line("HTTP/1.1");
  EXPECT_EQ(head.status, 0);
}

TEST(HttpAnswerHead, VersionsAreComparedByWhatBothHave) {
  const ObjectVersion strong{1, "\"a\"", "monday"}, dated{1, "", "monday"};
  EXPECT_TRUE(is_same_version(strong, "\"a\"", "tuesday"));
  EXPECT_TRUE(is_same_version(strong, "W/\"a\"", ""));
  EXPECT_FALSE(is_same_version(strong, "\"b\"", "monday"));
  EXPECT_FALSE(is_same_version(strong, "", "tuesday"));
  EXPECT_TRUE(is_same_version(dated, "\"new\"", "monday"));
  EXPECT_FALSE(is_same_version(dated, "", "tuesday"));
}

TEST(HttpAnswerHead, RetryAfter) {
  EXPECT_EQ(parse_retry_after(" 5 "), std::chrono::seconds(5));
  EXPECT_FALSE(parse_retry_after("-1"));
  EXPECT_FALSE(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"));
}

}  // namespace
}  // namespace atompack::io::fetch::http
