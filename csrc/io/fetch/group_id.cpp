#include "io/fetch/group_id.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "codec/checksums.h"

namespace atompack::io::fetch {
namespace {

constexpr std::string_view kSuffix = ".pages";
constexpr size_t kWordDigits = 16;
constexpr size_t kKeyDigits = 4 * kWordDigits;

std::string_view without_query(std::string_view url) { return url.substr(0, url.find('?')); }

std::string without_user(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::string(url);
  const size_t host = scheme + 3;
  const size_t user = url.substr(host, url.find('/', host) - host).rfind('@');
  return cat(url.substr(0, host), url.substr(user == std::string_view::npos ? host : host + user + 1));
}

// True if all characters are lower-case hexadecimal digits, which they then are the only spelling of.
bool parse_hex(std::string_view digits, uint64_t& value) {
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

bool parse_key(std::string_view digits, ObjectKey& key) {
  for (size_t i = 0; i < key.size(); ++i) {
    if (!parse_hex(digits.substr(i * kWordDigits, kWordDigits), key[i])) return false;
  }
  return true;
}

void append_hex(std::string& text, uint64_t value, size_t min_digits) {
  std::array<char, kWordDigits> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value, 16).ptr;
  const auto n = static_cast<size_t>(end - digits.begin());
  text.append(min_digits - std::min(min_digits, n), '0').append(digits.begin(), end);
}

}  // namespace

std::optional<ObjectKey> key_of(std::string_view url, const ObjectVersion& version) {
  // A weak ETag stays the same when bytes change that the server finds unimportant, a date within a second and for
  // files that keep theirs when they are copied.
  if (version.etag.empty() || version.etag.starts_with("W/")) return std::nullopt;
  // Neither URLs nor headers contain NUL.
  const std::string text = cat("atompack pages 1", '\0', without_user(without_query(url)), '\0', version.size, '\0',
                               version.etag, '\0', version.modified);
  ObjectKey key;
  if (!parse_key(codec::sha256_hex(as_bytes(text)), key)) throw InternalError("SHA-256: expected 64 digits");
  return key;
}

std::string file_name(const GroupId& group) {
  std::string name;
  for (const uint64_t word : group.object) append_hex(name, word, kWordDigits);
  name += '-';
  append_hex(name, group.number, 1);
  return name.append(kSuffix);
}

std::optional<GroupId> parse_file_name(std::string_view name) {
  GroupId group;
  if (name.size() < kKeyDigits + 2 + kSuffix.size() || name[kKeyDigits] != '-' || !name.ends_with(kSuffix)) return {};
  const std::string_view number = name.substr(kKeyDigits + 1, name.size() - kKeyDigits - 1 - kSuffix.size());
  if (!parse_key(name.substr(0, kKeyDigits), group.object) || !parse_hex(number, group.number)) return {};
  return file_name(group) == name ? std::optional(group) : std::nullopt;  // no leading zeros
}

}  // namespace atompack::io::fetch
