#include "formats/extxyz/atom_lines.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "formats/extxyz/number.h"
#include "model/element.h"

namespace atompack::extxyz {
namespace {

// Destination of the next word of a column; one of the pointers is set.
struct Target {
  const ColumnSpec* column;
  bool is_symbol;
  double* reals = nullptr;
  int64_t* integers = nullptr;
  uint8_t* bytes = nullptr;  // flags or symbols
  std::string* texts = nullptr;
};

// One line; errors include the position of the word.
class AtomLine {
 public:
  AtomLine(std::string_view line, const char* readable)
      : begin_(line.data()), at_(line.data()), end_(line.data() + line.size()), readable_(readable) {}

  void read(Target& target) {
    const int64_t width = target.column->width;
    if (target.reals != nullptr) {
      for (int64_t i = 0; i < width; ++i) *target.reals++ = real(*target.column);
    } else if (target.is_symbol) {
      *target.bytes++ = take("an element's symbol", &atomic_number, *target.column);
    } else if (target.integers != nullptr) {
      for (int64_t i = 0; i < width; ++i) *target.integers++ = take("an integer", &parse_integer, *target.column);
    } else if (target.bytes != nullptr) {
      for (int64_t i = 0; i < width; ++i) *target.bytes++ = take("T or F", &parse_flag, *target.column) ? 1 : 0;
    } else {
      for (int64_t i = 0; i < width; ++i) *target.texts++ = take("UTF-8", &parse_text, *target.column);
    }
  }

  bool has_more() {
    skip_space();
    return at_ != end_;
  }

  // Skips the other words, and counts them.
  int64_t count() {
    int64_t n = 0;
    for (; has_more(); ++n) take_token(at_, end_);
    return n;
  }

  uint64_t offset() const { return static_cast<uint64_t>(at_ - begin_); }

 private:
  static std::optional<std::string_view> parse_text(std::string_view word) {
    return is_utf8(std::as_bytes(std::span(word))) ? std::optional(word) : std::nullopt;
  }

  double real(const ColumnSpec& column) {
    skip_space();
    double value = 0;
    if (!take_real(at_, end_, readable_, value)) [[unlikely]] {
      fail("a number", take_token(at_, end_), column);
    }
    return value;
  }

  template <typename T>
  T take(std::string_view expected, std::optional<T> (*parse)(std::string_view), const ColumnSpec& column) {
    skip_space();
    const std::string_view word = take_token(at_, end_);
    const std::optional<T> value = parse(word);
    if (!value || word.empty()) [[unlikely]] {
      fail(expected, word, column);
    }
    return *value;
  }

  void skip_space() {
    while (at_ != end_ && is_space(*at_)) ++at_;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view word, const ColumnSpec& column) const {
    const std::string got = word.empty() ? "the end of the line" : excerpt(word);
    const auto offset = static_cast<uint64_t>(word.data() - begin_);
    throw CorruptFileError(cat("atom line: expected ", expected, ", got ", got), offset).at_field(column.key);
  }

  const char *begin_, *at_, *end_, *readable_;
};

Target reserve(const ColumnSpec& column, int64_t n_rows, bool numbers_are_given, Array& rows) {
  Target target{&column, column.role == Role::symbols && !numbers_are_given};
  const auto n = static_cast<size_t>(n_rows * column.width);
  rows.reset(column.kind);
  rows.shape = column.shape();
  if (target.is_symbol) return target;
  switch (column.kind) {
    case Kind::null:  // no column has it
      break;
    case Kind::real:
      rows.reals.resize(n);
      target.reals = rows.reals.data();
      break;
    case Kind::integer:
      rows.integers.resize(n);
      target.integers = rows.integers.data();
      break;
    case Kind::flag:
      rows.flags.resize(n);
      target.bytes = rows.flags.data();
      break;
    case Kind::text:
      rows.texts.resize(n);
      target.texts = rows.texts.data();
      break;
  }
  return target;
}

std::vector<Target> reserve_all(const FrameHead& head, int64_t n_rows, Atoms& atoms) {
  const std::vector<ColumnSpec>& columns = head.layout.columns;
  const bool numbers_are_given = std::ranges::count(columns, Role::numbers, &ColumnSpec::role) > 0;
  atoms.columns.resize(columns.size());
  atoms.is_field.assign(columns.size(), false);
  atoms.numbers.resize(static_cast<size_t>(n_rows));
  atoms.has_unnamed_words = false;
  std::vector<Target> targets;
  for (size_t i = 0; i < columns.size(); ++i) {
    Target target = reserve(columns[i], n_rows, numbers_are_given, atoms.columns[i]);
    if (target.is_symbol) target.bytes = atoms.numbers.data();
    atoms.is_field[i] = columns[i].role == Role::field;
    targets.push_back(target);
  }
  return targets;
}

void read_line(std::string_view line, const char* readable, const Layout& layout, std::span<Target> targets,
               Atoms& atoms) {
  AtomLine words(line, readable);
  for (Target& target : targets) words.read(target);
  if (!words.has_more()) [[likely]] {
    return;
  }
  if (layout.declared) {
    const uint64_t offset = words.offset();
    throw CorruptFileError(cat("atom line: expected ", layout.n_words, " words, as many as Properties names, got ",
                               layout.n_words + words.count(),
                               ": complete Properties, or convert with --from ase, which drops the others"),
                           offset);
  }
  atoms.has_unnamed_words = true;
}

void take_numbers(const ColumnSpec& column, const Array& given, const FrameHead& head, Atoms& atoms) {
  for (size_t i = 0; i < given.integers.size(); ++i) {
    const int64_t number = given.integers[i];
    if (number < 0 || number > 255) {
      throw CorruptFileError(cat("atomic number: expected 0 to 255, got ", number), head.comment_offset)
          .at_field(column.key);
    }
    atoms.numbers[i] = static_cast<uint8_t>(number);
  }
}

// Labels that only repeat the atomic numbers (X: number 0) are dropped.
bool repeats_numbers(const std::vector<std::string>& labels, const std::vector<uint8_t>& numbers) {
  return std::ranges::equal(labels, numbers, [](const std::string& label, uint8_t number) {
    return atomic_number(label) == number || label == "X";
  });
}

void apply_roles(const FrameHead& head, std::span<const Target> targets, Atoms& atoms) {
  const std::vector<ColumnSpec>& columns = head.layout.columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].role == Role::positions) atoms.positions.swap(atoms.columns[i].reals);
    if (columns[i].role == Role::numbers) take_numbers(columns[i], atoms.columns[i], head, atoms);
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool is_label = columns[i].role == Role::symbols && !targets[i].is_symbol;
    if (is_label) atoms.is_field[i] = !repeats_numbers(atoms.columns[i].texts, atoms.numbers);
  }
}

}  // namespace

uint64_t max_atom_lines(const LineReader& lines, const Layout& layout) {
  const uint64_t room = lines.file_bytes() - lines.next_offset() + 1;  // the last line may have no end
  return room / static_cast<uint64_t>(2 * layout.n_words);
}

void read_atoms(LineReader& lines, const FrameHead& head, Atoms& atoms) {
  // A frame may claim more lines than the file has room for: the missing one is found before memory is taken for all.
  const uint64_t n_rows = std::min(static_cast<uint64_t>(head.n_atoms), max_atom_lines(lines, head.layout) + 1);
  std::vector<Target> targets = reserve_all(head, static_cast<int64_t>(n_rows), atoms);
  for (int64_t i = 0; i < head.n_atoms; ++i) {
    const std::optional<std::string_view> line = lines.next();
    if (!line) {
      throw CorruptFileError(cat("frame: expected ", head.n_atoms, " atom lines, got ", i), lines.file_bytes());
    }
    with_context([&](DataError& error) { error.shift_offset(lines.line_offset()); },
                 [&] { read_line(*line, lines.readable(), head.layout, targets, atoms); });
  }
  apply_roles(head, targets, atoms);
}

}  // namespace atompack::extxyz
