#include "formats/parsed/array.h"

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

}  // namespace atompack::parsed
