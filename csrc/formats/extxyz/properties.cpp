#include "formats/extxyz/properties.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/extxyz/number.h"

namespace atompack::extxyz {
namespace {

// Far above any descriptor; keeps products of sizes far from overflow.
constexpr int64_t kMaxWords = 1 << 20;

[[noreturn]] void fail(const std::string& what) { throw CorruptFileError("Properties: " + what); }

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Kind kind_of(std::string_view letter, std::string_view key) {
  if (letter == "R") return Kind::real;
  if (letter == "I") return Kind::integer;
  if (letter == "S") return Kind::text;
  if (letter == "L") return Kind::flag;
  fail(cat("column ", excerpt(key), ": expected type R, I, S or L, got ", excerpt(letter)));
}

struct ColumnName {
  std::string_view key;
  Role role;
  Kind kind;
  int64_t width;
};

// Column names that ASE and libAtoms use for the structure itself.
constexpr ColumnName kMeanings[] = {
    {"pos", Role::positions, Kind::real, 3},   {"positions", Role::positions, Kind::real, 3},
    {"species", Role::symbols, Kind::text, 1}, {"symbols", Role::symbols, Kind::text, 1},
    {"Z", Role::numbers, Kind::integer, 1},    {"numbers", Role::numbers, Kind::integer, 1},
};

Role role_of(const ColumnSpec& column) {
  const auto meaning = std::ranges::find(kMeanings, column.key, &ColumnName::key);
  if (meaning == std::ranges::end(kMeanings)) return Role::field;
  if (column.kind != meaning->kind || column.width != meaning->width) {
    fail(cat("column ", excerpt(column.key), ": expected ", name_of(meaning->kind), " of width ", meaning->width,
             ", got ", name_of(column.kind), " of width ", column.width));
  }
  return meaning->role;
}

ColumnSpec column_of(std::string_view key, std::string_view letter, std::string_view width) {
  if (key.empty()) fail("expected the name of a column, got none");
  const std::optional<int64_t> words = parse_integer(width);
  if (!words || *words < 1 || *words > kMaxWords) {
    fail(cat("column ", excerpt(key), ": expected a width of 1 to ", kMaxWords, ", got ", excerpt(width)));
  }
  ColumnSpec column{std::string(key), kind_of(letter, key), *words, Role::field};
  column.role = role_of(column);
  return column;
}

size_t count(const Layout& layout, Role role) {
  return static_cast<size_t>(std::ranges::count(layout.columns, role, &ColumnSpec::role));
}

void validate(const Layout& layout) {
  std::set<std::string_view> keys;
  for (const ColumnSpec& column : layout.columns) {
    if (!keys.insert(column.key).second) fail(cat("duplicate column ", excerpt(column.key)));
  }
  if (layout.n_words > kMaxWords) fail(cat("expected at most ", kMaxWords, " words a line, got ", layout.n_words));
  if (count(layout, Role::positions) != 1) fail(cat("expected one column 'pos', got ", count(layout, Role::positions)));
  if (count(layout, Role::symbols) > 1 || count(layout, Role::numbers) > 1) fail("two columns give the elements");
  if (count(layout, Role::symbols) + count(layout, Role::numbers) == 0) {
    fail("expected a column 'species' or 'Z', got neither");
  }
}

}  // namespace

Layout parse_properties(std::string_view text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() % 3 != 0) fail(cat("expected name:type:width for each column, got ", parts.size(), " parts"));
  Layout layout;
  layout.declared = true;
  for (size_t i = 0; i < parts.size(); i += 3) {
    layout.columns.push_back(column_of(parts[i], parts[i + 1], parts[i + 2]));
    layout.n_words += layout.columns.back().width;
  }
  validate(layout);
  return layout;
}

Layout plain_layout() {
  return {{{"species", Kind::text, 1, Role::symbols}, {"pos", Kind::real, 3, Role::positions}}, 4, false};
}

}  // namespace atompack::extxyz
