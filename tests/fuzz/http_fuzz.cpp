#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "choices.h"
#include "io/fetch/http/address.h"
#include "io/fetch/http/exchange.h"
#include "io/fetch/http/failure.h"
#include "io/fetch/http/response_headers.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

namespace http = io::fetch::http;
using io::fetch::RangeRequest;

bool can_be_sent(const http::Address& address) {
  return std::ranges::all_of(address.url(), [](char c) { return c > 0x20 && c < 0x7F; });
}

void look_at(const http::Address& address) {
  require(address.scheme == "http" || address.scheme == "https", "an address is of HTTP");
  require(!address.host.empty() && address.path.starts_with('/'), "an address has a host and a path");
  require(can_be_sent(address), "an address is of characters that can be sent");
  require(http::parse_address(address.url()).url() == address.url(), "an address is read as it is written");
}

std::string text_of(Bytes bytes) { return std::string(as_text(bytes)); }

// Memory of the range in parts of different sizes; more than is asked for would be found by AddressSanitizer.
struct Memory {
  Memory(uint64_t length, Choices& choices) : bytes(length) {
    for (uint64_t at = 0; at < length;) {
      const uint64_t n = std::min<uint64_t>(length - at, 1 + choices.byte());
      parts.emplace_back(std::span(bytes).subspan(at, n));
      at += n;
    }
  }
  std::vector<std::byte> bytes;
  std::vector<std::span<std::byte>> parts;
};

}  // namespace

void read_address(Bytes input) {
  const size_t middle = input.size() / 2;
  const std::string text = text_of(input), first = text.substr(0, middle), second = text.substr(middle);
  const http::HttpOptions options;
  for (const std::string& url : {text, first}) {
    try {
      const http::Address address = http::parse_address(url);
      look_at(address);
      look_at(http::resolve_location(address, second));
    } catch (const std::invalid_argument&) {
      continue;  // the named end of what is not an address
    }
  }
  try {
    if (const auto name = http::parse_object_name(text)) look_at(http::address_of(*name, options, "eu-west-1"));
  } catch (const std::invalid_argument&) {
    return;
  }
  const std::string shown = http::shown_url("https://user:secret@host/" + second);
  require(shown.starts_with("https://host/") || shown.find("secret") == std::string::npos, "secrets are not shown");
}

void read_answer(Bytes input) {
  Choices choices(input);
  const uint64_t offset = choices.byte() * uint64_t{choices.byte()};
  const uint64_t length = 1 + choices.byte();
  Memory memory(length, choices);
  const RangeRequest request{offset, memory.parts};
  const io::fetch::ObjectVersion version{offset + length + choices.byte(), "\"v\"", ""};
  const bool is_pinned = choices.byte() % 2 == 1;
  const size_t n_lines = choices.below(8);
  try {
    http::ResponseHead head;
    for (size_t i = 0; i < n_lines; ++i) {
      std::string line;
      for (size_t n = choices.byte(); n > 0 && choices.left(); --n) line.push_back(static_cast<char>(choices.byte()));
      head.add_line(line);
    }
    if (const std::string* const wait = head.find("retry-after")) http::parse_retry_after(*wait);
    http::RangeBody body(request, is_pinned ? &version : nullptr, 1000);
    body.begin(head);
    for (bool is_more = true; is_more && choices.left();) {
      std::vector<std::byte> piece(choices.byte());
      std::ranges::generate(piece, [&] { return std::byte{choices.byte()}; });
      is_more = body.take(piece);
    }
    body.end();
    require(body.n_received() <= length, "no more than was asked for");
    require(!is_pinned || body.n_received() == length, "of a known object, all that was asked for");
    require(offset + body.n_received() <= body.version().size || body.n_received() == 0, "inside of the object");
  } catch (const http::ResponseError& error) {
    require(!error.failure().reason.empty(), "an error has a reason");
  }
}

}  // namespace atompack::fuzz
