// URLs, headers and signatures of requests.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "io/fetch/http/address.h"
#include "io/fetch/http/call.h"
#include "io/fetch/http/options.h"

namespace atompack::io::fetch::http {

// Signatures of AWS, version 4, made with OpenSSL: libcurl's are wrong for keys with `+` and `=` and for some queries.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Not thread-safe: keeps the key of the day.
class SigV4 {
 public:
  // Returns `headers` and those that sign them: Authorization, x-amz-date, x-amz-content-sha256 and, if there is one,
  // x-amz-security-token. Signed are the host, content-type and all x-amz-* and x-goog-* headers; others, such as
  // Range, can be added afterwards. The path and the query of the address must be canonical.
  Headers signed_headers(const std::string& method, const Address& address, const Headers& headers,
                         std::string_view payload_sha256, const Credentials& credentials, const std::string& region,
                         std::chrono::system_clock::time_point now);

 private:
  const std::string& key_of_day(const Credentials& credentials, const std::string& day, const std::string& region);

  std::string secret_, day_, region_, key_;
};

// Used by the thread of the loop alone, except for make_target().
class RequestMaker {
 public:
  explicit RequestMaker(const HttpOptions& options) : options_(options) {}

  // Throws std::invalid_argument.
  static std::shared_ptr<Target> make_target(const std::string& url, const Query& query, const HttpOptions& options);

  // The same object for all ranges of one target, until its signature is a second old.
  std::shared_ptr<const Prepared> prepare(const Call& call, const std::shared_ptr<const Credentials>& credentials);

  // Takes the region from a response that names a different one than was tried. Returns false if it names none.
  bool learn_region(Target& target, const ResponseHead& head, std::string_view body);

  // Takes the region that another call has learned.
  void update_region(Target& target) const;

 private:
  std::shared_ptr<const Prepared> make(const Call& call, const std::shared_ptr<const Credentials>& credentials,
                                       std::chrono::system_clock::time_point now);

  const HttpOptions& options_;
  SigV4 sigv4_;
  std::map<std::string, std::string> regions_;  // of buckets
};

}  // namespace atompack::io::fetch::http
