#include "base/excerpt.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/utf8.h"

namespace atompack {

std::string excerpt(std::string_view text) {
  constexpr size_t kMaxBytes = 40;
  const std::string_view head = text.substr(0, kMaxBytes);
  const bool is_text = is_utf8(std::as_bytes(std::span(head)));
  std::string shown = "'";
  for (const char c : head) {
    const bool is_shown = !is_control(c) && (is_text || static_cast<unsigned char>(c) < 0x80);
    shown += is_shown ? std::string(1, c) : "\\x" + hex_digits({&c, 1});
  }
  return shown + (head.size() < text.size() ? "...'" : "'");
}

}  // namespace atompack
