#include "io/fetch/http/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/checksums.h"

namespace atompack::io::fetch::http {
namespace {

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> made;
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), made.data(), &size) == nullptr) {
    throw InternalError("HMAC: OpenSSL is configured without SHA-256");
  }
  return {reinterpret_cast<const char*>(made.data()), size};
}

std::string utc(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

bool is_signed_header(std::string_view name) {
  return name == "content-type" || name.starts_with("x-amz-") || name.starts_with("x-goog-");
}

std::string trimmed(std::string_view value) {
  std::string made;
  for (const char c : value) {
    const bool is_space = c == ' ' || c == '\t';
    if (!is_space) {
      made += c;
    } else if (!made.empty() && made.back() != ' ') {
      made += ' ';
    }
  }
  if (made.ends_with(' ')) made.pop_back();
  return made;
}

std::string lower_name(std::string_view name) {
  std::string made(name);
  for (char& c : made) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return made;
}

}  // namespace

std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    text += {kDigits[code >> 4], kDigits[code & 15]};
  }
  return text;
}

Headers SigV4::signed_headers(const std::string& method, const Address& address, const Headers& headers,
                              std::string_view payload_sha256, const Credentials& credentials,
                              const std::string& region, std::chrono::system_clock::time_point now) {
  const std::string time = utc(now), day = time.substr(0, 8);
  Headers sent = headers;
  sent.emplace_back("x-amz-content-sha256", payload_sha256);
  sent.emplace_back("x-amz-date", time);
  if (!credentials.session_token.empty()) sent.emplace_back("x-amz-security-token", credentials.session_token);

  Headers canonical{{"host", address.host}};
  for (const auto& [name, value] : sent) {
    if (std::string key = lower_name(name); is_signed_header(key)) canonical.emplace_back(key, trimmed(value));
  }
  std::ranges::sort(canonical);
  std::string lines, names;
  for (const auto& [name, value] : canonical) {
    lines.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  const std::string request =
      cat(method, "\n", address.path, "\n", address.query, "\n", lines, "\n", names, "\n", payload_sha256);
  const std::string scope = cat(day, "/", region, "/s3/aws4_request");
  const std::string to_sign = cat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", codec::sha256_hex(as_bytes(request)));
  const std::string signature = hex_digits(hmac_sha256(key_of_day(credentials, day, region), to_sign));
  sent.emplace_back("Authorization", cat("AWS4-HMAC-SHA256 Credential=", credentials.access_key, "/", scope,
                                         ", SignedHeaders=", names, ", Signature=", signature));
  return sent;
}

const std::string& SigV4::key_of_day(const Credentials& credentials, const std::string& day,
                                     const std::string& region) {
  if (secret_ != credentials.secret_key || day_ != day || region_ != region) {
    const std::string key = hmac_sha256("AWS4" + credentials.secret_key, day);
    key_ = hmac_sha256(hmac_sha256(hmac_sha256(key, region), "s3"), "aws4_request");
    secret_ = credentials.secret_key;
    day_ = day;
    region_ = region;
  }
  return key_;
}

}  // namespace atompack::io::fetch::http
