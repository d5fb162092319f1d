#include "io/fetch/http/response_headers.h"

#include <algorithm>

#include "base/ascii.h"

namespace atompack::io::fetch::http {
namespace {

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view opaque_tag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  return etag;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view value) {
  value = without_spaces(value);
  if (!value.starts_with("bytes ")) return std::nullopt;
  value = without_spaces(value.substr(6));
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view bounds = value.substr(0, slash), total = value.substr(slash + 1);
  ContentRange range;
  if (total != "*" && !(range.total = parse_number<uint64_t>(total))) return std::nullopt;
  if (bounds == "*") return range;
  const size_t dash = bounds.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  range.first = parse_number<uint64_t>(bounds.substr(0, dash));
  range.last = parse_number<uint64_t>(bounds.substr(dash + 1));
  if (!range.first || !range.last || *range.first > *range.last) return std::nullopt;
  if (range.total && *range.last >= *range.total) return std::nullopt;
  return range;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value) {
  const std::optional<uint64_t> count = parse_number<uint64_t>(without_spaces(value));
  if (!count || *count > 1'000'000) return std::nullopt;
  return std::chrono::seconds(*count);
}

void ResponseHead::add_line(std::string_view line) {
  line = without_spaces(line);
  if (line.starts_with("HTTP/")) {
    *this = ResponseHead();
    const std::string_view code = line.substr(std::min(line.find(' '), line.size() - 1) + 1, 3);
    status = static_cast<int>(parse_number<uint64_t>(code).value_or(0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return;
  n_bytes_ += line.size();
  if (n_bytes_ > kMaxHeaderBytes) return;
  headers.emplace_back(lower_case(line.substr(0, colon)), without_spaces(line.substr(colon + 1)));
}

const std::string* ResponseHead::find(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<ContentRange> ResponseHead::range() const {
  const std::string* value = find("content-range");
  return value == nullptr ? std::nullopt : parse_content_range(*value);
}

std::optional<uint64_t> ResponseHead::content_length() const {
  const std::string* value = find("content-length");
  return value == nullptr ? std::nullopt : parse_number<uint64_t>(*value);
}

std::string ResponseHead::etag() const {
  const std::string* value = find("etag");
  return value == nullptr ? "" : *value;
}

std::string ResponseHead::modified() const {
  const std::string* value = find("last-modified");
  return value == nullptr ? "" : *value;
}

bool is_same_version(const ObjectVersion& version, const std::string& etag, const std::string& modified) {
  if (!version.etag.empty() && !etag.empty()) return opaque_tag(version.etag) == opaque_tag(etag);
  return version.modified.empty() || modified.empty() || version.modified == modified;
}

}  // namespace atompack::io::fetch::http
