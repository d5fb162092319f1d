#include "formats/extxyz/frame_head.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/extxyz/number.h"
#include "formats/extxyz/value.h"

namespace atompack::extxyz {
namespace {

// Skips blank lines between frames.
std::optional<std::string_view> next_word_line(LineReader& lines) {
  for (auto line = lines.next(); line; line = lines.next()) {
    if (const std::string_view words = trim(*line); !words.empty()) return words;
  }
  return std::nullopt;
}

int64_t parse_count(std::string_view words, uint64_t offset) {
  const std::optional<int64_t> count = parse_integer(words);
  if (count && *count >= 0) return *count;
  if (words.starts_with("VEC")) {
    throw UnsupportedFormatError("lattice vectors in VEC lines: expected Lattice in the comment line", offset);
  }
  throw CorruptFileError(cat("frame: expected the number of atoms, got ", excerpt(words)), offset);
}

[[noreturn]] void fail_value(const Entry& entry, std::string_view expected) {
  throw CorruptFileError(cat(entry.key, ": expected ", expected, ", got ", excerpt(entry.text)), entry.offset);
}

std::optional<std::array<double, 9>> parse_lattice(const Entry& entry) {
  Array value;
  infer_value(entry, value);
  if (value.kind == Kind::integer) value.widen(Kind::real);
  if (value.kind != Kind::real || value.reals.size() != 9) return std::nullopt;
  if (!std::ranges::all_of(value.reals, [](double x) { return std::isfinite(x); })) fail_value(entry, "finite numbers");
  std::array<double, 9> lattice;
  std::ranges::copy(value.reals, lattice.begin());
  return lattice;
}

// One flag may apply to all three directions.
std::optional<std::array<uint8_t, 3>> parse_pbc(const Entry& entry) {
  Array value;
  infer_value(entry, value);
  if (value.kind == Kind::flag) value.widen(Kind::integer);
  if (value.kind != Kind::integer || (value.size() != 1 && value.size() != 3)) return std::nullopt;
  std::array<uint8_t, 3> pbc;
  for (size_t i = 0; i < 3; ++i) pbc[i] = value.integers[value.size() == 1 ? 0 : i] != 0 ? 1 : 0;
  return pbc;
}

// Only columns have colons: another key of this name may hold any text.
std::optional<std::string> parse_columns(const Entry& entry) {
  return entry.text.find(':') == std::string::npos ? std::nullopt : std::optional(entry.text);
}

bool is_same_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Removes the entry with this key and returns its value. A key in upper or mixed case, as some programs write it,
// counts if its value fits; otherwise it is a property.
template <typename T>
std::optional<T> take(std::vector<Entry>& entries, std::string_view key, std::optional<T> (*parse)(const Entry&),
                      std::string_view expected, Entry* taken = nullptr) {
  auto found = std::ranges::find(entries, key, &Entry::key);
  if (found == entries.end()) {
    found = std::ranges::find_if(
        entries, [&](const Entry& entry) { return is_same_but_for_case(entry.key, key) && parse(entry); });
  }
  if (found == entries.end()) return std::nullopt;
  std::optional<T> value = parse(*found);
  if (!value) fail_value(*found, expected);
  if (taken != nullptr) *taken = std::move(*found);
  entries.erase(found);
  return value;
}

}  // namespace

std::optional<int64_t> next_count(LineReader& lines) {
  const std::optional<std::string_view> words = next_word_line(lines);
  return words ? std::optional(parse_count(*words, lines.line_offset())) : std::nullopt;
}

const FrameHead* FrameHeadReader::next(LineReader& lines) {
  const std::optional<int64_t> n_atoms = next_count(lines);
  if (!n_atoms) return nullptr;
  const std::optional<std::string_view> comment = lines.next();
  if (!comment) throw CorruptFileError("frame: expected a comment line, got the end of the file", lines.file_bytes());
  parse(*n_atoms, *comment, lines.line_offset());
  return &head_;
}

const FrameHead& FrameHeadReader::parse(int64_t n_atoms, std::string_view comment, uint64_t comment_offset) {
  head_.n_atoms = n_atoms;
  head_.comment_offset = comment_offset;
  with_context([&](DataError& error) { error.shift_offset(comment_offset).at_offset(comment_offset); },
               [&] { read_comment(comment); });
  return head_;
}

void FrameHeadReader::read_comment(std::string_view line) {
  head_.entries = parse_comment_line(line);
  head_.comment_is_plain = head_.entries.empty() && !trim(line).empty();
  head_.lattice = take(head_.entries, "Lattice", &parse_lattice, "nine numbers");
  Entry entry;
  head_.pbc = take(head_.entries, "pbc", &parse_pbc, "three flags", &entry);
  if (!head_.lattice && head_.pbc && std::ranges::count(*head_.pbc, 0) < 3) {
    fail_value(entry, "a Lattice with it, or F F F");
  }
  std::optional<std::string> columns =
      take(head_.entries, "Properties", &parse_columns, "name:type:width for each column");
  // ASE writes symbols of no atoms as reals.
  constexpr std::string_view kNoSymbols = "species:R:1:";
  if (head_.n_atoms == 0 && columns && columns->starts_with(kNoSymbols)) columns->replace(8, 1, "S");
  set_layout(columns);
}

void FrameHeadReader::set_layout(const std::optional<std::string>& properties) {
  if (!head_.layout.columns.empty() && properties == properties_) return;
  head_.layout = {};
  head_.layout = properties ? parse_properties(*properties) : plain_layout();
  properties_ = properties;
}

}  // namespace atompack::extxyz
