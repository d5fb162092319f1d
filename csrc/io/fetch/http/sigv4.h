// Signatures of AWS, version 4, made with OpenSSL: libcurl's are wrong for keys with `+` and `=` and for some queries.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "io/fetch/http/address.h"
#include "io/fetch/http/options.h"

namespace atompack::io::fetch::http {

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

std::string hex_digits(std::string_view bytes);  // lower-case

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

}  // namespace atompack::io::fetch::http
