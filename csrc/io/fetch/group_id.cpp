#include "io/fetch/group_id.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
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

std::optional<ObjectKey> parse_key(std::string_view digits) {
  ObjectKey key;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto word = parse_number<uint64_t>(digits.substr(i * kWordDigits, kWordDigits), 16);
    if (!word) return std::nullopt;
    key[i] = *word;
  }
  return key;
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
  return parse_key(codec::sha256_hex(as_bytes(text)));
}

std::string file_name(const GroupId& group) {
  std::string name;
  for (const uint64_t word : group.object) append_hex(name, word, kWordDigits);
  name += '-';
  append_hex(name, group.number, 1);
  return name.append(kSuffix);
}

std::optional<GroupId> parse_file_name(std::string_view name) {
  if (name.size() < kKeyDigits + 2 + kSuffix.size() || name[kKeyDigits] != '-' || !name.ends_with(kSuffix)) return {};
  const std::string_view digits = name.substr(kKeyDigits + 1, name.size() - kKeyDigits - 1 - kSuffix.size());
  const auto object = parse_key(name.substr(0, kKeyDigits));
  const auto number = parse_number<uint64_t>(digits, 16);
  if (!object || !number) return {};
  const GroupId group{*object, *number};
  return file_name(group) == name ? std::optional(group) : std::nullopt;  // the only spelling
}

}  // namespace atompack::io::fetch
