#include "io/fetch/http/address.h"

#include <algorithm>
#include <stdexcept>

#include "base/ascii.h"

namespace atompack::io::fetch::http {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_unreserved(char c) {
  return is_lower(c) || is_upper(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

// Encodes only characters that cannot be sent: the addresses of users and servers are encoded otherwise.
std::string sendable(std::string_view text) {
  std::string made;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code > 0x20 && code < 0x7F && c != '"' && c != '<' && c != '>' && c != '\\' && c != '^' && c != '`' &&
        c != '{' && c != '|' && c != '}') {
      made += c;
    } else {
      made += percent_encoded(std::string_view(&c, 1));
    }
  }
  return made;
}

// A name, or an address of IPv6 in brackets, and a port or none.
void check_host(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  const size_t end = std::min(is_bracketed ? host.find(']') : host.find(':'), host.size());
  const std::string_view name = host.substr(is_bracketed ? 1 : 0, end - (is_bracketed ? 1 : 0));
  std::string_view port = host.substr(std::min(host.size(), end + (is_bracketed ? 1 : 0)));
  bool is_valid = !name.empty() && (!is_bracketed || end < host.size()) &&
                  std::ranges::all_of(name, [&](char c) { return is_unreserved(c) || (is_bracketed && c == ':'); });
  if (!port.empty()) {
    is_valid = is_valid && port.front() == ':' && port.size() > 1;
    port.remove_prefix(1);
    is_valid = is_valid && std::ranges::all_of(port, is_digit);
  }
  if (!is_valid) throw std::invalid_argument("the URL has no valid host");
}

// A label of a host name; names with dots or capitals do not match the certificates of virtual hosts.
bool fits_host_name(const std::string& bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && bucket.front() != '-' && bucket.back() != '-' &&
         std::ranges::all_of(bucket, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view keep) {
  std::string made;
  made.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || keep.find(c) != std::string_view::npos) {
      made += c;
    } else {
      const auto code = static_cast<unsigned char>(c);
      made += {'%', kHexDigits[code >> 4], kHexDigits[code & 15]};
    }
  }
  return made;
}

std::string canonical_query(const Query& query) {
  Query encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  std::ranges::sort(encoded);
  std::string made;
  for (const auto& [name, value] : encoded) {
    if (!made.empty()) made += '&';
    made.append(name).append("=").append(value);
  }
  return made;
}

std::string Address::url() const {
  std::string made = scheme + "://" + host + path;
  if (!query.empty()) made.append("?").append(query);
  return made;
}

Address parse_address(std::string_view url) {
  const size_t colon = url.find("://");
  Address address;
  address.scheme = lower_case(url.substr(0, std::min(colon, url.size())));
  if (colon == std::string_view::npos || (address.scheme != "http" && address.scheme != "https")) {
    throw std::invalid_argument("expected a http:// or https:// URL");
  }
  url.remove_prefix(colon + 3);
  url = url.substr(0, url.find('#'));
  const size_t end = std::min(url.find_first_of("/?"), url.size());
  std::string_view host = url.substr(0, end);
  if (const size_t at = host.rfind('@'); at != std::string_view::npos) host.remove_prefix(at + 1);
  check_host(host);
  address.host = lower_case(host);
  const std::string default_port = address.scheme == "http" ? ":80" : ":443";
  if (address.host.ends_with(default_port)) address.host.resize(address.host.size() - default_port.size());
  url.remove_prefix(end);
  const size_t question = std::min(url.find('?'), url.size());
  address.path = sendable(url.substr(0, question));
  if (address.path.empty()) address.path = "/";
  if (question < url.size()) address.query = sendable(url.substr(question + 1));
  return address;
}

Address resolve_location(const Address& base, std::string_view location) {
  if (location.find("://") < location.find_first_of("/?#")) return parse_address(location);
  if (location.starts_with("//")) return parse_address(base.scheme + ":" + std::string(location));
  const std::string root = base.scheme + "://" + base.host;
  if (location.starts_with('/')) return parse_address(root + std::string(location));
  if (location.starts_with('?')) return parse_address(root + base.path + std::string(location));
  return parse_address(root + base.path.substr(0, base.path.rfind('/') + 1) + std::string(location));
}

std::optional<ObjectName> parse_object_name(std::string_view url) {
  const size_t colon = std::min(url.find("://"), url.size());
  ObjectName name;
  name.scheme = lower_case(url.substr(0, colon));
  if (name.scheme == "http" || name.scheme == "https") return std::nullopt;
  if (name.scheme != "s3" && name.scheme != "gs") {
    throw std::invalid_argument("expected a URL that begins with s3://, gs://, http:// or https://");
  }
  url.remove_prefix(std::min(colon + 3, url.size()));
  const size_t slash = std::min(url.find('/'), url.size());
  name.bucket = url.substr(0, slash);
  const bool is_valid = !name.bucket.empty() && std::ranges::all_of(name.bucket, is_unreserved) && name.bucket != "." &&
                        name.bucket != "..";
  if (!is_valid) throw std::invalid_argument("the URL has no valid bucket");
  if (slash < url.size()) name.key = url.substr(slash + 1);
  return name;
}

Address address_of(const ObjectName& name, const HttpOptions& options, const std::string& region) {
  const std::string key = percent_encoded(name.key, "/");
  Address address;
  if (!options.endpoint.empty()) {
    address = parse_address(options.endpoint);
  } else if (name.scheme == "gs") {
    address = {"https", "storage.googleapis.com", "/", ""};
  } else {
    const std::string host = "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    if (fits_host_name(name.bucket)) return {"https", name.bucket + "." + host, "/" + key, ""};
    address = {"https", host, "/", ""};
  }
  address.query.clear();
  if (!address.path.ends_with('/')) address.path += '/';
  address.path += name.bucket;
  if (!key.empty()) address.path.append("/").append(key);
  return address;
}

std::string shown_url(std::string_view url) {
  const size_t colon = url.find("://");
  std::string shown;
  if (colon != std::string_view::npos) {
    shown = url.substr(0, colon + 3);
    url.remove_prefix(colon + 3);
    const size_t host_end = std::min(url.find('/'), url.size());
    if (const size_t at = url.substr(0, host_end).rfind('@'); at != std::string_view::npos) url.remove_prefix(at + 1);
  }
  if (shown != "s3://" && shown != "gs://") url = url.substr(0, url.find_first_of("?#"));  // keys may contain these
  return shown.append(url);
}

}  // namespace atompack::io::fetch::http
