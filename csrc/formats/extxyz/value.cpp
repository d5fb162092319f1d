#include "formats/extxyz/value.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "formats/extxyz/number.h"
#include "formats/extxyz/number_list.h"
#include "serial/json/reader.h"

namespace atompack::extxyz {
namespace {

constexpr bool is_separator(char c) { return is_space(c) || c == ','; }

// Calls `take` with one word after the other; stops at the first one that it rejects.
template <typename Take>
bool for_each_word(std::string_view text, const Take& take) {
  for (size_t at = 0; at < text.size();) {
    if (is_separator(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !is_separator(text[end])) ++end;
    if (!take(text.substr(at, end - at))) return false;
    at = end;
  }
  return true;
}

template <typename T, typename Value>
bool keep(const std::optional<Value>& value, std::vector<T>& into) {
  if (value) into.push_back(static_cast<T>(*value));
  return value.has_value();
}

bool read_words(std::string_view text, Kind kind, Array& out) {
  out.reset(kind);
  const bool fits = for_each_word(text, [&](std::string_view word) {
    switch (kind) {
      case Kind::integer:
        return keep(parse_integer(word), out.integers);
      case Kind::real:
        return keep(parse_real(word), out.reals);
      case Kind::flag:
        return keep(parse_flag(word), out.flags);
      case Kind::null:
      case Kind::text:
        return false;
    }
    return false;
  });
  if (!fits || out.size() == 0) return false;
  if (out.size() > 1) out.shape = {static_cast<int64_t>(out.size())};
  return true;
}

void set_text(std::string_view text, Array& out) {
  out.reset(Kind::text);
  out.texts.emplace_back(text);
}

// ASE leaves the value of "uid" as written; only strings that cannot be in a line are exempt.
bool is_unprocessed(const Entry& entry) {
  const std::string_view key = entry.key;
  const bool is_uid = key.size() == 3 && (key[0] | 0x20) == 'u' && (key[1] | 0x20) == 'i' && (key[2] | 0x20) == 'd';
  return is_uid && !entry.text.starts_with(std::string(kJsonMark) + '"');
}

// Parses a string, a number, or nested lists of numbers. False for everything else.
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
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (is_control(c)) {
      json += "\\u00" + hex_digits({&c, 1});
    } else {
      json += c;
    }
  }
  return json + '"';
}

// Objects and lists of anything but numbers: their value is the JSON itself.
bool is_other_json(std::string_view json) {
  const auto within = [&](char open, char close) { return json.starts_with(open) && json.ends_with(close); };
  return json.size() > 1 && (within('{', '}') || within('[', ']'));
}

bool infer_structured(const Entry& entry, Array& out) {
  if (entry.text.starts_with(kJsonMark)) {
    std::string_view json = without_mark(entry.text);
    if (parse_json(json, out)) return true;
    while (!json.empty() && is_space(json.back())) json.remove_suffix(1);
    if (is_other_json(json)) set_text(json, out);
    return is_other_json(json);
  }
  const bool nested = entry.bracketed && entry.text.find_first_of("[{") != std::string::npos;
  return nested && parse_number_list('[' + entry.text + ']', ListStyle::loose, out);
}

bool is_read_as_text(std::string_view key, std::string_view text) {
  Array read;
  infer_value({std::string(key), std::string(text)}, read);
  return read.kind == Kind::text && read.texts[0] == text;
}

// To Python, and therefore ASE, 1_000 is a number, and non-ASCII characters may be digits or spaces.
std::string normalize_for_python(std::string_view text, char foreign) {
  std::string seen;
  for (const char c : text) {
    if (c != '_') seen += static_cast<unsigned char>(c) < 0x80 ? c : foreign;
  }
  return seen;
}

// True if the string needs no quotes.
bool is_plain_text(std::string_view key, std::string_view text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::all_of(text, is_separator) || std::ranges::any_of(text, is_control)) return false;
  return is_read_as_text(key, text) && is_read_as_text(key, normalize_for_python(text, '1')) &&
         is_read_as_text(key, normalize_for_python(text, ' '));
}

}  // namespace

void infer_value(const Entry& entry, Array& out) {
  const std::string_view text = entry.text;
  if (is_unprocessed(entry)) return set_text(text, out);
  if (infer_structured(entry, out)) return;
  for (const Kind kind : {Kind::integer, Kind::real, Kind::flag}) {
    if (read_words(text, kind, out)) return;
  }
  set_text(text, out);
}

std::string_view without_mark(std::string_view text) {
  if (!text.starts_with(kJsonMark)) return text;
  text.remove_prefix(kJsonMark.size());
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

void append_text_value(std::string_view key, std::string_view text, std::string& line) {
  if (is_plain_text(key, text)) return append_quoted(text, line);
  append_quoted(std::string(kJsonMark) + json_string(text), line);
}

}  // namespace atompack::extxyz
