// Options of a store of objects over HTTP.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atompack::io::fetch::http {

using Headers = std::vector<std::pair<std::string, std::string>>;
using std::chrono::milliseconds;

// Keys with which requests are signed, or a bearer token, or nothing for anonymous access.
struct Credentials {
  std::string access_key, secret_key, session_token;
  std::string bearer;
  std::optional<double> expiry;  // in seconds since 1970

  bool is_anonymous() const { return access_key.empty() && bearer.empty(); }
  bool operator==(const Credentials&) const = default;
};

// May block, and throw; runs on a thread of its own, one call at a time.
using CredentialsProvider = std::function<Credentials()>;

struct RetryOptions {
  unsigned max_attempts = 8;          // of any request
  unsigned max_connect_attempts = 4;  // of those for which no connection could be made
  milliseconds first_delay{100}, max_delay{8000};
  milliseconds max_retry_after{30'000};  // a longer Retry-After is shortened to this
  milliseconds max_total{180'000};       // no attempt starts later than this after the first
};

struct HedgeOptions {
  // A small read that takes longer than this multiple of the 99th percentile of recent reads is sent once more. 0 turns
  // this off.
  double multiple = 3;
  milliseconds min_delay{50};
  size_t max_bytes = 256 * 1024;  // of a small read
  size_t min_samples = 128;
};

struct HttpOptions {
  // For s3:// and gs:// URLs. Without `endpoint` s3://BUCKET is https://BUCKET.s3.REGION.amazonaws.com, and gs:// is
  // https://storage.googleapis.com; with it the bucket is the first part of the path.
  std::string endpoint;
  std::string region = "us-east-1";

  CredentialsProvider credentials;  // none: anonymous
  Headers headers;                  // sent with every request to the host that the user named
  std::string ca_file;              // used if SSL_CERT_FILE is not set; empty: the system's

  size_t max_in_flight = 512;
  milliseconds connect_timeout{10'000};
  // A transfer that receives or sends fewer than `min_progress` bytes in this time has stalled.
  milliseconds stall_timeout{20'000};
  uint64_t min_progress = 1024;
  // Where a server sends the whole object instead of a range, up to this many bytes before the range are received in
  // vain.
  uint64_t max_skip = 1 << 20;

  RetryOptions retry;
  HedgeOptions hedge;
};

}  // namespace atompack::io::fetch::http
