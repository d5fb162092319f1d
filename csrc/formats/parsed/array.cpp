#include "formats/parsed/array.h"

#include <array>
#include <charconv>

namespace atompack::parsed {

void Array::reset(Kind new_kind) {
  kind = new_kind;
  is_narrow = false;
  shape.clear();
  flags.clear();
  integers.clear();
  reals.clear();
  texts.clear();
}

size_t Array::size() const {
  switch (kind) {
    case Kind::null:
      return 0;
    case Kind::flag:
      return flags.size();
    case Kind::integer:
      return integers.size();
    case Kind::real:
      return reals.size();
    case Kind::text:
      return texts.size();
  }
  return 0;
}

void Array::widen(Kind to) {
  if (kind == Kind::flag && to != Kind::flag) {
    integers.assign(flags.begin(), flags.end());
    flags.clear();
    kind = Kind::integer;
  }
  if (kind == Kind::integer && to == Kind::real) {
    reals.assign(integers.begin(), integers.end());
    integers.clear();
    kind = Kind::real;
  }
}

void Array::to_text() {
  std::array<char, 32> text;
  char* end = text.begin();
  if (kind == Kind::flag) {
    end = std::ranges::copy(std::string_view(flags[0] != 0 ? "true" : "false"), end).out;
  } else if (kind == Kind::integer) {
    end = std::to_chars(text.begin(), text.end(), integers[0]).ptr;
  } else {
    end = std::to_chars(text.begin(), text.end(), reals[0]).ptr;
  }
  reset(Kind::text);
  texts.emplace_back(text.begin(), end);
}

}  // namespace atompack::parsed
