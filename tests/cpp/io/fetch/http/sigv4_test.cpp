#include "io/fetch/http/request_maker.h"

#include <gtest/gtest.h>

namespace atompack::io::fetch::http {
namespace {

using std::chrono::seconds;
constexpr std::string_view kNoBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string header_of(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "(none)";
}

std::string signature_of(const Headers& headers) {
  const std::string value = header_of(headers, "Authorization");
  return value.substr(value.find("Signature=") + 10);
}

struct Signed {
  std::string method = "GET", key = "", token = "";
  Query query = {};
  Headers headers = {};
  std::string_view payload = kUnsignedPayload;
};

// Path style, 2026-03-04 05:06:07 UTC, as the expected values were made with botocore.
Headers sign(const Signed& what) {
  HttpOptions options;
  options.endpoint = "http://127.0.0.1:9000";
  Address address = address_of({"s3", "bucket", what.key}, options, "eu-central-1");
  address.query = canonical_query(what.query);
  const Credentials credentials{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", what.token, "", {}};
  return SigV4().signed_headers(what.method, address, what.headers, what.payload, credentials, "eu-central-1",
                                std::chrono::system_clock::time_point(seconds(1772600767)));
}

TEST(HttpSigV4, KeysAreSignedAsBotocoreDoes) {
  const std::pair<std::string, std::string> expected[] = {
      {"plain/key.atp", "a3870da3107714f1d17b936b21ba02f13022475d19fba4b8dc1b05fa8a399e60"},
      {"with space", "dc9cc6bea10341fbe8c708183cb95d036b99ebcec530b405e6f3e2a014bcf693"},
      {"a+b=c", "e2265dd24fdb98cc49789ecfc94ebde7062d4767799f2d46f0583d0fcaf09179"},
      {"50%", "d9010c936b1eba2c40b18933b863701507ae9405e922a5a56b1825a7a6e0e8a6"},
      {"caf\xC3\xA9/\xE6\xB0\xB4", "5b2d9f0b39c3ab16054e8d60b6977a21a1cb02ac3975357d2ce2914557e29fd4"},
      {"~un-re_served.", "a8178ec2ca3385ee7f4adb141928d82fe96c4c12ed99d6f24189a54daaa07128"},
      {"a//b/", "d20acf264b94317f16a0d5aa761cfa48269d17e9bb3fc7c256a8222c12ff3900"},
      {"q?m#h&x;y:@,$!*'()", "c220469d9523985e9fc59986af1e9223725c284882d9cfa58429d44ce528ccc8"},
  };
  for (const auto& [key, signature] : expected) EXPECT_EQ(signature_of(sign({.key = key})), signature) << key;
}

TEST(HttpSigV4, SessionTokensQueriesAndHeadersAreSigned) {
  const Headers with_token = sign({.key = "k", .token = "TOKEN/+=="});
  EXPECT_EQ(header_of(with_token, "x-amz-security-token"), "TOKEN/+==");
  EXPECT_EQ(signature_of(with_token), "367b961a7056fc96cefd7e938237e6d80721fc54fa004ac228a205465021cb53");
  EXPECT_EQ(signature_of(sign({.key = "",
                               .query = {{"prefix", "a b/"}, {"list-type", "2"}, {"continuation-token", "1/aB+c=="}},
                               .payload = kNoBody})),
            "b734819d2a8c4f7af5dffaa3a8ee02e9c61ad02be2aed80397be22bc4ee10c44");
  const Headers uploads = sign({.method = "POST",
                                .key = "k",
                                .query = {{"uploads", ""}},
                                .headers = {{"Content-Type", "application/octet-stream"}, {"If-None-Match", "*"}},
                                .payload = kNoBody});
  EXPECT_EQ(signature_of(uploads), "6923cd2abefc0857df06641e0a29edf6959d330782dc1b26ca26e56303f80607");
  EXPECT_EQ(header_of(uploads, "If-None-Match"), "*");
}

// From the documentation of Amazon S3.
TEST(HttpSigV4, PublishedExamples) {
  const Credentials credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", "", {}};
  const std::chrono::system_clock::time_point time(seconds(1369353600));
  SigV4 sigv4;
  Address address{"https", "examplebucket.s3.amazonaws.com", "/", canonical_query({{"lifecycle", ""}})};
  EXPECT_EQ(signature_of(sigv4.signed_headers("GET", address, {}, kNoBody, credentials, "us-east-1", time)),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  address.query = canonical_query({{"prefix", "J"}, {"max-keys", "2"}});
  const Headers headers = sigv4.signed_headers("GET", address, {}, kNoBody, credentials, "us-east-1", time);
  EXPECT_EQ(header_of(headers, "Authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
            "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(HttpSigV4, TheKeyFollowsDayRegionAndSecret) {
  SigV4 kept;
  const std::chrono::system_clock::time_point day(seconds(1369353600)), next_day(seconds(1369353600 + 86400));
  const Address address{"https", "h", "/", ""};
  const Credentials one{"A", "one", "", "", {}}, two{"A", "two", "", "", {}};
  const auto same = [&](const Credentials& credentials, const std::string& region, auto time) {
    const auto of = [&](SigV4& sigv4) {
      return signature_of(sigv4.signed_headers("GET", address, {}, kNoBody, credentials, region, time));
    };
    SigV4 fresh;
    return of(kept) == of(fresh);
  };
  EXPECT_TRUE(same(one, "r", day));
  EXPECT_TRUE(same(one, "r", next_day));
  EXPECT_TRUE(same(two, "r", next_day));
  EXPECT_TRUE(same(two, "s", next_day));
}

}  // namespace
}  // namespace atompack::io::fetch::http
