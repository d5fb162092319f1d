// Addresses of HTTP requests: parsing, percent-encoding, and where the buckets of object stores are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/fetch/http/options.h"

namespace atompack::io::fetch::http {

using Query = std::vector<std::pair<std::string, std::string>>;

// Percent-encodes all bytes but letters, digits, `-._~` and those in `keep`.
std::string percent_encoded(std::string_view text, std::string_view keep = "");

// Encodes and sorts the parameters as SigV4 wants them: `a=1&b=`.
std::string canonical_query(const Query& query);

// All parts are encoded as they are sent.
struct Address {
  std::string scheme;  // http or https
  std::string host;    // with the port unless that is the default of the scheme
  std::string path;    // begins with /
  std::string query;   // without the question mark

  std::string url() const;
  bool same_host(const Address& other) const { return scheme == other.scheme && host == other.host; }
};

// Takes a http:// or https:// URL; encodes the characters that must not be in one and drops user info and fragment.
// Throws std::invalid_argument, without the URL.
Address parse_address(std::string_view url);

// Resolves a Location header. Throws std::invalid_argument.
Address resolve_location(const Address& base, std::string_view location);

// An object in a bucket; the key as the store knows it, not encoded.
struct ObjectName {
  std::string scheme;  // s3 or gs
  std::string bucket, key;
};

// Returns nullopt for http:// and https:// URLs. Throws std::invalid_argument for everything that is neither.
std::optional<ObjectName> parse_object_name(std::string_view url);

// `region` replaces that of the options once the server has named another.
Address address_of(const ObjectName& name, const HttpOptions& options, const std::string& region);

// The URL without query, fragment and user info, for messages.
std::string shown_url(std::string_view url);

}  // namespace atompack::io::fetch::http
