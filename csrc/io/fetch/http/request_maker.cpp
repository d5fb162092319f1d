#include "io/fetch/http/request_maker.h"

#include <algorithm>
#include <new>

namespace atompack::io::fetch::http {
namespace {

constexpr std::chrono::seconds kSignatureAge{1};

void append_header(HeaderList& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(list.release());  // is the beginning of the longer one
  list.reset(longer);
}

// Strings that a server may repeat in its answer.
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
  append_header(list, "Expect:");  // bodies are sent at once
  prepared->headers = std::move(list);
  return prepared;
}

bool RequestMaker::learn_region(Target& target, const AnswerHead& head, std::string_view body) {
  if (!target.name || target.name->scheme != "s3") return false;
  if (head.status != 301 && head.status != 307 && head.status != 400) return false;
  const std::string* header = head.find("x-amz-bucket-region");
  const std::string region(header != nullptr ? *header : std::string(xml_element(body, "Region")));
  const bool is_valid = !region.empty() && region.size() <= 40 && std::ranges::all_of(region, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
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
