// Status and headers of a response.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/fetch/http/options.h"
#include "io/fetch/range_reader.h"

namespace atompack::io::fetch::http {

// bytes 0-99/1000; `bytes */1000` has no first and last byte, `bytes 0-99/*` no total.
struct ContentRange {
  std::optional<uint64_t> first, last, total;
};

std::optional<ContentRange> parse_content_range(std::string_view value);

// Takes seconds; a date gives nullopt, since clocks differ.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value);

struct ResponseHead {
  int status = 0;
  Headers headers;  // names in lower case; more than kMaxHeaderBytes are dropped

  // Adds a line as it came: a status line begins a new head.
  void add_line(std::string_view line);

  const std::string* find(std::string_view name) const;  // nullptr if missing
  std::optional<ContentRange> range() const;
  std::optional<uint64_t> content_length() const;
  // The version of the whole object; its size only if it is known from the headers.
  std::string etag() const;
  std::string modified() const;

 private:
  static constexpr size_t kMaxHeaderBytes = 64 * 1024;
  size_t n_bytes_ = 0;
};

// True if headers of a response may belong to this version: what both have is the same.
bool is_same_version(const ObjectVersion& version, const std::string& etag, const std::string& modified);

}  // namespace atompack::io::fetch::http
