#include "formats/extxyz/json_value.h"

#include "formats/extxyz/number.h"
#include "formats/extxyz/number_list.h"
#include "serial/json/reader.h"

namespace atompack::extxyz {

bool parse_json(std::string_view json, Array& out) {
  const std::string_view text = trim(json);
  if (!text.starts_with('"')) return parse_number_list(text, ListStyle::json, out);
  out.reset(Kind::text);
  try {
    serial::JsonReader in(as_bytes(text));
    out.texts.emplace_back(in.text());
    in.finish();
    return true;
  } catch (const CorruptFileError&) {
    return false;
  }
}

std::string json_string(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (code < 0x20 || code == 0x7F) {
      json += "\\u00";
      json += {kDigits[code >> 4], kDigits[code & 15]};
    } else {
      json += c;
    }
  }
  return json + '"';
}

}  // namespace atompack::extxyz
