#include "io/fetch/http/request_maker.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <new>

#include "base/ascii.h"
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

constexpr std::chrono::seconds kSignatureAge{1};

void append_header(HeaderList& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(list.release());  // is the beginning of the longer one
  list.reset(longer);
}

// Strings that a server may repeat in its response.
std::vector<std::string> secrets_in(const Headers& headers, const Credentials* credentials, const Address& address) {
  std::vector<std::string> secrets;
  for (const auto& [name, value] : headers) {
    if (name != "x-amz-content-sha256" && name != "x-amz-date") secrets.push_back(value);
  }
  if (credentials != nullptr) {
    for (const std::string* secret :
         {&credentials->bearer, &credentials->secret_key, &credentials->session_token, &credentials->access_key}) {
      if (!secret->empty()) secrets.push_back(*secret);
    }
  }
  for (const auto& [name, value] : headers) {
    if (const size_t at = value.find("Signature="); at != std::string::npos) secrets.push_back(value.substr(at + 10));
  }
  if (!address.query.empty()) secrets.push_back(address.query);
  for (size_t at = 0; at < address.query.size();) {
    const size_t end = std::min(address.query.find('&', at), address.query.size());
    const std::string pair = address.query.substr(at, end - at);
    if (const size_t equals = pair.find('='); equals != std::string::npos && pair.size() - equals > 8) {
      secrets.push_back(pair.substr(equals + 1));
    }
    at = end + 1;
  }
  // The longest first: others may be parts of it.
  std::ranges::sort(secrets, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return secrets;
}

}  // namespace

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
    if (std::string key = lower_case(name); is_signed_header(key)) canonical.emplace_back(key, trimmed(value));
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

std::shared_ptr<Target> RequestMaker::make_target(const std::string& url, const Query& query,
                                                  const HttpOptions& options) {
  auto target = std::make_shared<Target>();
  target->shown = shown_url(url);
  target->name = parse_object_name(url);
  target->query = canonical_query(query);
  target->region = options.region;
  target->origin = target->name ? address_of(*target->name, options, options.region) : parse_address(url);
  if (!target->query.empty()) {
    target->origin.query += target->origin.query.empty() ? target->query : "&" + target->query;
  }
  return target;
}

std::shared_ptr<const Prepared> RequestMaker::prepare(const Call& call,
                                                      const std::shared_ptr<const Credentials>& credentials) {
  const auto now = std::chrono::system_clock::now();
  Target& target = *call.target;
  if (!call.range) return make(call, credentials, now);
  const bool sends_credentials = !target.redirected || target.redirected->same_host(target.origin);
  const bool is_current = target.prepared && now - target.prepared->signed_at < kSignatureAge &&
                          now >= target.prepared->signed_at &&
                          (!sends_credentials || target.prepared->credentials == credentials);
  if (!is_current) target.prepared = make(call, credentials, now);
  return target.prepared;
}

std::shared_ptr<const Prepared> RequestMaker::make(const Call& call,
                                                   const std::shared_ptr<const Credentials>& credentials,
                                                   std::chrono::system_clock::time_point now) {
  const Target& target = *call.target;
  const Address& address = target.address();
  auto prepared = std::make_shared<Prepared>();
  prepared->url = address.url();
  prepared->signed_at = now;
  Headers headers = call.headers;
  if (address.same_host(target.origin)) {
    headers.insert(headers.end(), options_.headers.begin(), options_.headers.end());
    prepared->credentials = credentials;
    if (!credentials->bearer.empty()) {
      headers.emplace_back("Authorization", "Bearer " + credentials->bearer);
    } else if (!credentials->access_key.empty() && target.name) {
      const std::string_view payload = call.range ? kUnsignedPayload : std::string_view(call.body_sha256);
      headers = sigv4_.signed_headers(call.method, address, headers, payload, *credentials, target.region, now);
    }
  }
  prepared->secrets = secrets_in(headers, prepared->credentials.get(), address);
  const bool is_pinned = call.range && target.version && address.same_host(target.version_from);
  if (is_pinned && target.version->etag.starts_with('"')) headers.emplace_back("If-Match", target.version->etag);
  HeaderList list;
  for (const auto& [name, value] : headers) append_header(list, value.empty() ? name + ";" : name + ": " + value);
  append_header(list, "Expect:");  // bodies are sent immediately
  prepared->headers = std::move(list);
  return prepared;
}

bool RequestMaker::learn_region(Target& target, const ResponseHead& head, std::string_view body) {
  if (!target.name || target.name->scheme != "s3") return false;
  if (head.status != 301 && head.status != 307 && head.status != 400) return false;
  const std::string* header = head.find("x-amz-bucket-region");
  const std::string region(header != nullptr ? *header : std::string(xml_element(body, "Region")));
  const bool is_valid = !region.empty() && region.size() <= 40 &&
                        std::ranges::all_of(region, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
  if (!is_valid || region == target.region) return false;
  regions_[target.name->bucket] = region;
  update_region(target);
  return true;
}

void RequestMaker::update_region(Target& target) const {
  if (!target.name) return;
  const auto known = regions_.find(target.name->bucket);
  if (known == regions_.end() || known->second == target.region) return;
  target.region = known->second;
  target.origin = address_of(*target.name, options_, target.region);
  target.origin.query = target.query;
  target.prepared = nullptr;
}

}  // namespace atompack::io::fetch::http
