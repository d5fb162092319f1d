#include "formats/extxyz/comment_line.h"

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "formats/extxyz/number.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kMaxEntries = 1 << 16;

char closing_of(char opening) {
  switch (opening) {
    case '"':
    case '\'':
      return opening;
    case '[':
      return ']';
    case '{':
      return '}';
    default:
      return 0;
  }
}

// Parses in one pass. Quotes and brackets may begin anywhere in a word; spaces may surround '=',
// unless the word after it is the next key.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : line_(line) {}

  std::vector<Entry> parse() {
    while (at_ < line_.size()) step();
    if (!has_values_) return {};
    if (!fault_.empty()) throw CorruptFileError(fault_, fault_offset_);
    return std::move(entries_);
  }

 private:
  enum class State : uint8_t { between, key, before_value, value };

  void step() {
    const char c = line_[at_];
    if (is_space(c)) {
      ++at_;
      if (state_ != State::before_value) state_ = State::between;
    } else if (c == '=') {
      equals();
      ++at_;
    } else {
      enter_word();
      if (c == '\\') {
        parse_escape();
      } else if (closing_of(c) != 0) {
        parse_brackets(closing_of(c));
      } else {
        const size_t end = end_of_run(is_plain);
        word().append(line_, at_, end - at_);
        at_ = end;
      }
    }
  }

  // The first position from here on whose character does not belong to a run.
  template <typename IsInRun>
  size_t end_of_run(const IsInRun& is_in_run) const {
    size_t end = at_ + 1;
    while (end < line_.size() && is_in_run(line_[end])) ++end;
    return end;
  }

  static bool is_plain(char c) { return !is_space(c) && c != '=' && c != '\\' && closing_of(c) == 0; }

  void equals() {
    if (entries_.empty()) return fail("expected a key before '='", at_);
    if (has_value_) {
      entries_.back().text += '=';
    } else {
      entries_.back().text.clear();
    }
    has_value_ = has_values_ = true;
    state_ = is_before_key(at_ + 1) ? State::between : State::before_value;
  }

  // True where blanks and `KEY=` follow: a value ends there, even an empty one.
  bool is_before_key(size_t at) const {
    const auto skip = [&](const auto& is_skipped) {
      const size_t begin = at;
      while (at < line_.size() && is_skipped(line_[at])) ++at;
      return at > begin;
    };
    if (!skip(is_space) || !skip(is_plain)) return false;
    skip(is_space);
    return at < line_.size() && line_[at] == '=';
  }

  void enter_word() {
    if (state_ == State::between) {
      if (entries_.size() == kMaxEntries) check_is_remark();
      entries_.push_back({"", "T", at_});
      has_value_ = false;
      state_ = State::key;
    } else if (state_ == State::before_value) {
      state_ = State::value;
      entries_.back().bracketed = entries_.back().text.empty() && (line_[at_] == '[' || line_[at_] == '{');
    }
  }

  // Words of a remark, however many, are not kept.
  void check_is_remark() {
    if (has_values_ || line_.find('=', at_) != std::string_view::npos) {
      throw CorruptFileError(cat("comment line: expected at most ", kMaxEntries, " keys, got more"), at_);
    }
    entries_.clear();
  }

  std::string& word() { return state_ == State::key ? entries_.back().key : entries_.back().text; }

  void parse_escape() {
    if (at_ + 1 == line_.size()) return fail("expected a character after '\\'", at_);
    word() += line_[at_ + 1];
    at_ += 2;
  }

  // Brackets nest with their own kind; the outermost pair is dropped.
  void parse_brackets(char closing) {
    const size_t begin = at_;
    const char opening = line_[at_++];
    for (int64_t depth = 1; at_ < line_.size();) {
      const char c = line_[at_];
      if (c == '\\') {
        parse_escape();
        continue;
      }
      if (c == closing) {
        --depth;
      } else if (c == opening) {
        ++depth;
      }
      if (depth == 0) {
        ++at_;
        return;
      }
      const size_t end = end_of_run([&](char x) { return x != closing && x != opening && x != '\\'; });
      word().append(line_, at_, end - at_);
      at_ = end;
    }
    fail(cat("expected a closing ", closing), begin);
  }

  // Only recorded: a remark without keys has no errors.
  void fail(std::string what, size_t offset) {
    if (fault_.empty()) {
      fault_ = "comment line: " + std::move(what) + ", got none";
      fault_offset_ = offset;
    }
    at_ = std::max(at_, offset + 1);
  }

  std::string_view line_;
  size_t at_ = 0;
  State state_ = State::between;
  bool has_value_ = false;   // of the last entry
  bool has_values_ = false;  // of any entry
  std::vector<Entry> entries_;
  std::string fault_;
  size_t fault_offset_ = 0;
};

// Repeated keys must have equal values.
void merge_repeated(std::vector<Entry>& entries) {
  std::map<std::string_view, const Entry*> seen;
  std::vector<bool> repeated(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto [place, fresh] = seen.try_emplace(entries[i].key, &entries[i]);
    if (fresh) continue;
    if (place->second->text != entries[i].text) {
      throw CorruptFileError("comment line: duplicate key", entries[i].offset).at_field(entries[i].key);
    }
    repeated[i] = true;
  }
  size_t i = 0;
  std::erase_if(entries, [&](const Entry&) { return repeated[i++]; });
}

bool is_bare(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < 0x7F && std::string_view("\"'[]{}\\=").find(c) == std::string_view::npos;
  });
}

}  // namespace

std::vector<Entry> parse_comment_line(std::string_view line) {
  std::vector<Entry> entries = LineParser(line).parse();
  if (!entries.empty() && !is_utf8(std::as_bytes(std::span(line))))
    throw CorruptFileError("comment line: expected UTF-8, got other bytes", 0);
  merge_repeated(entries);
  return entries;
}

void append_quoted(std::string_view text, std::string& line) {
  if (is_bare(text)) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += '"';
}

}  // namespace atompack::extxyz
