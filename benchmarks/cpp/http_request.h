// Requests of HTTP/1.1, as far as a server of files needs them.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atompack::benchmarks {

struct Request {
  std::string_view method;
  std::string path;  // decoded, without the query
  std::string_view range, if_match;
  bool closes = false;
};

inline bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

inline std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Returns nullopt for a percent sign without two digits.
inline std::optional<std::string> decode_path(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    path += static_cast<char>(value);
    i += 2;
  }
  return path;
}

// True for paths that lead out of the folder.
inline bool has_parent_folder(std::string_view path) {
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return false;
}

// `head`: all lines with their ends, without the empty one.
inline std::optional<Request> parse_request(std::string_view head) {
  Request request;
  const auto next_line = [&] {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    return line;
  };
  std::string_view line = next_line();
  const size_t first = line.find(' ');
  const size_t second = line.rfind(' ');
  if (first == second || !line.substr(second + 1).starts_with("HTTP/1.")) return std::nullopt;
  request.method = line.substr(0, first);
  request.closes = line.ends_with("1.0");
  const std::string_view target = line.substr(first + 1, second - first - 1);
  auto path = decode_path(target.substr(0, target.find('?')));
  if (!path || !path->starts_with('/') || path->find('\0') != std::string::npos) return std::nullopt;
  request.path = *std::move(path);
  while (!head.empty()) {
    line = next_line();
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (equal_ignoring_case(name, "Range")) request.range = value;
    if (equal_ignoring_case(name, "If-Match")) request.if_match = value;
    if (equal_ignoring_case(name, "Connection")) request.closes = equal_ignoring_case(value, "close");
  }
  return request;
}

// True if a list of ETags contains this one.
inline bool matches(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view one = trim(list.substr(0, comma));
    if (one == "*" || one == etag) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

struct Range {
  enum class Kind : uint8_t { whole, part, unsatisfiable };
  Kind kind;
  uint64_t begin, end;
};

// Several ranges, and values that are not valid, mean the whole file, as the standard allows.
inline Range parse_range(std::string_view text, uint64_t size) {
  const Range whole{Range::Kind::whole, 0, size};
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit)) return whole;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return whole;
  const auto number = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
  };
  const auto first = number(text.substr(0, dash));
  const auto last = number(text.substr(dash + 1));
  const bool has_last = dash + 1 < text.size();
  if ((dash > 0 && !first) || (has_last && !last) || (dash == 0 && !has_last)) return whole;
  if (first && last && *last < *first) return whole;
  const uint64_t begin = first ? *first : size - std::min(size, *last);
  const uint64_t end = first && last && *last < size ? *last + 1 : size;
  if (begin >= end) return {Range::Kind::unsatisfiable, 0, 0};
  return {Range::Kind::part, begin, end};
}

}  // namespace atompack::benchmarks
