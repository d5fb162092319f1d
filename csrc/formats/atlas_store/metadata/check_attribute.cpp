#include "formats/atlas_store/metadata/check_attribute.h"

#include <cmath>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/utf8.h"

namespace atompack::atlas_store {

void check_attribute(std::string_view key, const AttributeValue& value, Form form) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw FieldError(cat("attribute ", excerpt(key), ": expected ", expected, ", got ", got));
  };
  if (!is_utf8(as_bytes(key))) refuse("a UTF-8 key", "other bytes");
  if (const auto* const real = std::get_if<double>(&value); real != nullptr && is_json(form) && !std::isfinite(*real)) {
    refuse("a finite number in JSON", cat(*real));
  }
  const auto* const text = std::get_if<std::string_view>(&value);
  if (text == nullptr) return;
  if (!is_utf8(as_bytes(*text))) refuse("UTF-8", "other bytes");
  if (parse_timestamp(*text)) refuse("a string that does not read as a timestamp", excerpt(*text));
}

}  // namespace atompack::atlas_store
