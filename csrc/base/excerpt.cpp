#include "base/excerpt.h"

#include "base/bytes.h"
#include "base/utf8.h"

namespace atompack {

std::string excerpt(std::string_view text) {
  constexpr size_t kMaxBytes = 40;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::string_view head = text.substr(0, kMaxBytes);
  const bool is_text = is_utf8(std::as_bytes(std::span(head)));
  std::string shown = "'";
  for (const char c : head) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7F && (code < 0x80 || is_text)) {
      shown += c;
    } else {
      shown += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    }
  }
  return shown + (head.size() < text.size() ? "...'" : "'");
}

}  // namespace atompack
