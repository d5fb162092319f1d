#include "formats/lmdb/row_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/shape.h"
#include "formats/parsed/array.h"
#include "serial/json/reader.h"

namespace atompack::lmdb {
namespace {

using parsed::Array;
using parsed::Kind;
using parsed::wider;
using serial::JsonReader;
using serial::Number;
using serial::Token;

// Values in the JSON of ASE: numbers, strings, lists and arrays.

#if defined(__aarch64__)
using Float16 = __fp16;  // g++ 12 has no other there
#else
using Float16 = _Float16;
#endif

constexpr int kMaxNesting = 16;
constexpr std::string_view kArray = "__ndarray__";

// Appends an integer; false for reals and numbers beyond 64 bits, which become reals in JSON.
bool push_integer(const Number& number, std::vector<int64_t>& out) {
  if (const auto* const natural = std::get_if<uint64_t>(&number)) {
    if (*natural > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    out.push_back(static_cast<int64_t>(*natural));
  } else if (const auto* const negative = std::get_if<int64_t>(&number)) {
    out.push_back(*negative);
  } else {
    return false;
  }
  return true;
}

// Reads the value after "__ndarray__": [shape, type, values]. False, with the value skipped, for types that no field
// has.
class ArrayParser {
 public:
  ArrayParser(JsonReader& in, Array& out) : in_(in), out_(out) {}

  bool parse() {
    const uint64_t begin = in_.position();
    auto parts = in_.enter_list();
    expect_item(parts, begin);
    out_.reset(Kind::text);
    std::vector<int64_t>& shape = out_.shape;
    for (auto dims = in_.enter_list(); in_.next_item(dims);) {
      if (!push_integer(in_.number(), shape) || shape.back() < 0 || shape.size() > Shape::kMaxRank) {
        throw CorruptFileError("shape of an array: expected sizes from 0", begin);
      }
    }
    expect_item(parts, begin);
    const std::string_view type = in_.text();
    const std::optional<Kind> kind = kind_of(type);
    out_.kind = kind.value_or(Kind::text);
    out_.is_narrow = is_narrow(type);
    is_float32_ = type == "float32";
    is_float16_ = type == "float16";
    expect_item(parts, begin);
    if (kind) {
      take_values(*kind, begin);
    } else {
      skip_value(in_);
    }
    if (in_.next_item(parts)) throw CorruptFileError("array: expected a shape, a type and values, got more", begin);
    if (!kind) {
      shape.clear();
      return false;
    }
    if (is_float32_) {
      for (double& value : out_.reals) value = static_cast<double>(static_cast<float>(value));
    } else if (is_float16_) {
      for (double& value : out_.reals) value = static_cast<double>(static_cast<Float16>(value));
    }
    uint64_t n = 1;
    for (const int64_t dim : shape) n = checked_mul(n, static_cast<uint64_t>(dim), "values of an array");
    if (n != out_.size()) throw CorruptFileError(cat("array: expected ", n, " values, got ", out_.size()), begin);
    return fits_;
  }

 private:
  void expect_item(JsonReader::Scope& parts, uint64_t begin) {
    if (!in_.next_item(parts)) throw CorruptFileError("array: expected a shape, a type and values, got fewer", begin);
  }

  static std::optional<Kind> kind_of(std::string_view type) {
    if (type == "bool") return Kind::flag;
    if (type == "float64" || type == "float32" || type == "float16") return Kind::real;
    for (const std::string_view name : {"int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"}) {
      if (type == name) return Kind::integer;
    }
    return std::nullopt;
  }

  // Types that 32 bits hold, as the formats here store them.
  static bool is_narrow(std::string_view type) {
    return type == "float32" || type == "float16" || type == "int32" || type == "int16" || type == "int8" ||
           type == "uint8" || type == "uint16";
  }

  // Numbers are in one flat list, or in nested ones.
  void take_values(Kind kind, uint64_t begin, int depth = 0) {
    if (depth == kMaxNesting) throw CorruptFileError("array: expected fewer nested lists", begin);
    if (in_.peek() != Token::list) return take_value(kind);
    if (kind == Kind::real && starts_with_number()) return in_.append_reals(out_.reals);
    for (auto items = in_.enter_list(); in_.next_item(items);) {
      if (kind == Kind::integer && in_.append_naturals(out_.integers)) continue;
      take_values(kind, begin, depth + 1);
    }
  }

  bool starts_with_number() const {
    JsonReader ahead = in_;
    auto items = ahead.enter_list();
    return ahead.next_item(items) && ahead.peek() == Token::number;
  }

  void take_value(Kind kind) {
    if (kind == Kind::flag) {
      out_.flags.push_back(in_.boolean() ? 1 : 0);
    } else if (kind == Kind::real) {
      out_.reals.push_back(std::visit([](auto exact) { return static_cast<double>(exact); }, in_.number()));
    } else if (!push_integer(in_.number(), out_.integers)) {
      out_.integers.push_back(0);
      fits_ = false;
    }
  }

  JsonReader& in_;
  Array& out_;
  bool fits_ = true, is_float32_ = false, is_float16_ = false;
};

// Reads numbers in nested lists of equal lengths; false, with the rest skipped, for anything else.
class ListParser {
 public:
  ListParser(JsonReader& in, Array& out) : in_(in), out_(out) {}

  bool parse() {
    out_.reset(Kind::flag);
    is_sound_ = true;
    take(0);
    if (!is_sound_ || kind_ == Kind::text) return false;
    out_.shape = shape_;
    if (parsed::product(out_.shape) == 0) return false;  // an empty list has no type
    return true;
  }

 private:
  void take(size_t depth) {
    switch (in_.peek()) {
      case Token::list:
        return take_list(depth);
      case Token::boolean:
        return in_.boolean() ? push(1, Kind::flag, depth) : push(0, Kind::flag, depth);
      case Token::number:
        return take_number(depth);
      default:
        is_sound_ = false;
        skip_value(in_);
    }
  }

  void take_list(size_t depth) {
    if (depth == kMaxNesting) throw CorruptFileError("list: expected fewer nested lists", in_.position());
    int64_t n = 0;
    if (depth == shape_.size()) {
      if (has_values_) is_sound_ = false;
      shape_.push_back(-1);
    }
    for (auto items = in_.enter_list(); in_.next_item(items); ++n) take(depth + 1);
    if (shape_[depth] < 0) shape_[depth] = n;
    is_sound_ = is_sound_ && shape_[depth] == n;
  }

  void take_number(size_t depth) {
    const Number number = in_.number();
    if (const double* const real = std::get_if<double>(&number)) {
      check_depth(depth);
      widen(Kind::real);
      out_.reals.push_back(*real);
      return;
    }
    std::vector<int64_t> one;
    if (!push_integer(number, one)) {
      is_sound_ = false;
      return;
    }
    push(one[0], Kind::integer, depth);
  }

  void push(int64_t value, Kind kind, size_t depth) {
    check_depth(depth);
    widen(kind);
    if (out_.kind == Kind::real) {
      out_.reals.push_back(static_cast<double>(value));
    } else if (out_.kind == Kind::integer) {
      out_.integers.push_back(value);
    } else {
      out_.flags.push_back(static_cast<uint8_t>(value));
    }
  }

  void check_depth(size_t depth) {
    has_values_ = true;
    is_sound_ = is_sound_ && depth == shape_.size();
  }

  void widen(Kind kind) {
    kind_ = kind_ == Kind::text ? kind : wider(kind_, kind);
    out_.widen(wider(out_.kind, kind));
  }

  JsonReader& in_;
  Array& out_;
  std::vector<int64_t> shape_;
  Kind kind_ = Kind::text;  // until there is a value
  bool is_sound_ = true, has_values_ = false;
};

// Reads any value; false, with the value skipped, if no field can hold it.
bool take_value(JsonReader& in, Array& out) {
  switch (in.peek()) {
    case Token::null:
      in.null();
      out.reset(Kind::null);
      return true;
    case Token::text:
      out.reset(Kind::text);
      out.texts.emplace_back(in.text());
      return true;
    case Token::boolean:
      out.reset(Kind::flag);
      out.flags.push_back(in.boolean() ? 1 : 0);
      return true;
    case Token::number: {
      const Number number = in.number();
      out.reset(Kind::integer);
      if (push_integer(number, out.integers)) return true;
      out.reset(Kind::real);
      if (std::holds_alternative<uint64_t>(number)) return false;
      out.reals.push_back(std::get<double>(number));
      return true;
    }
    case Token::list:
      return ListParser(in, out).parse();
    case Token::map:
      break;
  }
  bool is_array = false;
  out.reset(Kind::text);
  auto scope = in.enter_map();
  for (std::string_view key; in.next_key(scope, key);) {
    if (key == kArray) {
      is_array = ArrayParser(in, out).parse();
    } else {
      is_array = false;
      skip_value(in);
    }
  }
  return is_array;
}

// Columns of a row.

struct ColumnName {
  std::string_view key;
  Level level;
};

// Columns that ase.Atoms has, and the results of calculators, which are float64.
constexpr ColumnName kArrays[] = {{"tags", Level::atom},
                                  {"momenta", Level::atom},
                                  {"masses", Level::atom},
                                  {"initial_magmoms", Level::atom},
                                  {"initial_charges", Level::atom}};
constexpr ColumnName kResults[] = {{"energy", Level::molecule},
                                   {"forces", Level::atom},
                                   {"stress", Level::molecule},
                                   {"stresses", Level::atom},
                                   {"dipole", Level::molecule},
                                   {"charges", Level::atom},
                                   {"magmom", Level::molecule},
                                   {"magmoms", Level::atom},
                                   {"free_energy", Level::molecule},
                                   {"energies", Level::atom},
                                   {"dielectric_tensor", Level::molecule},
                                   {"born_effective_charges", Level::atom},
                                   {"polarization", Level::molecule}};

template <size_t N>
const ColumnName* find_column(const ColumnName (&columns)[N], std::string_view key) {
  const auto found = std::ranges::find(columns, key, &ColumnName::key);
  return found == std::ranges::end(columns) ? nullptr : found;
}

}  // namespace

// Reads the entries of a row in any order; key-value pairs and data are put last.
class RowParser {
 public:
  // `scratch` is overwritten.
  RowParser(Bytes json, Row& row, Array& scratch)
      : in_(json, serial::JsonStyle::python), row_(row), scratch_(scratch) {}

  void parse() {
    row_.n_values_ = 0;
    row_.left_out.clear();
    row_.cell.fill(0);
    row_.pbc.fill(0);
    auto scope = in_.enter_map();
    for (std::string_view key; in_.next_key(scope, key);) take_entry(key);
    in_.finish();
    if (!has_numbers_ || !has_positions_) throw CorruptFileError("row: expected numbers and positions");
    if (row_.positions.size() != 3 * row_.numbers.size()) {
      throw CorruptFileError(
          cat("positions: expected ", 3 * row_.numbers.size(), " numbers, got ", row_.positions.size()));
    }
    check_rows();
    take_section(pairs_, "key_value_pairs/");
    take_section(data_, "data/");
  }

 private:
  // A map among the entries, to be read after them.
  struct Section {
    uint64_t begin = 0;
    Bytes text;
  };

  void take_entry(std::string_view key) {
    if (key == "numbers") return take_numbers();
    if (key == "positions") return take_positions();
    if (key == "cell") return take_cell();
    if (key == "pbc") return take_pbc();
    if (key == "key_value_pairs") return keep(pairs_);
    if (key == "data") return keep(data_);
    if (key == "constraints") return leave_out("constraints");
    if (const ColumnName* const column = find_column(kArrays, key)) return take_column(*column, false);
    if (const ColumnName* const column = find_column(kResults, key)) return take_column(*column, true);
    skip_value(in_);  // ids, times, users, settings of calculators
  }

  void leave_out(std::string_view key) {
    if (in_.peek() != Token::null) row_.left_out.emplace_back(key);
    skip_value(in_);
  }

  void keep(Section& section) {
    section.begin = in_.position();
    skip_value(in_);
    section.text = in_.since(section.begin);
  }

  Array& take_structure(std::string_view name) {
    const uint64_t begin = in_.position();
    const bool is_taken = take_value(in_, scratch_);
    if (!is_taken || scratch_.kind == Kind::text || scratch_.kind == Kind::null) {
      if (!scratch_.shape.empty() && scratch_.size() == 0) return scratch_;
      throw CorruptFileError(cat(name, ": expected numbers, got something else"), begin);
    }
    return scratch_;
  }

  void take_numbers() {
    const uint64_t begin = in_.position();
    Array& array = take_structure("numbers");
    array.widen(Kind::integer);
    if (array.kind != Kind::integer || array.shape.size() != 1) {
      if (array.size() != 0) throw CorruptFileError("numbers: expected integers, one for each atom", begin);
    }
    row_.numbers.resize(array.integers.size());
    for (size_t i = 0; i < row_.numbers.size(); ++i) {
      const int64_t number = array.integers[i];
      if (number < 0 || number > 255) {
        throw CorruptFileError(cat("atomic number: expected 0 to 255, got ", number), begin);
      }
      row_.numbers[i] = static_cast<uint8_t>(number);
    }
    has_numbers_ = true;
  }

  void take_positions() {
    Array& array = take_structure("positions");
    array.widen(Kind::real);
    row_.positions.swap(array.reals);
    has_positions_ = true;
  }

  void take_cell() {
    const uint64_t begin = in_.position();
    if (in_.peek() == Token::null) return in_.null();
    Array& array = take_structure("cell");
    array.widen(Kind::real);
    if (array.reals.size() != 9) throw CorruptFileError("cell: expected nine numbers", begin);
    std::ranges::copy(array.reals, row_.cell.begin());
  }

  void take_pbc() {
    const uint64_t begin = in_.position();
    Array& array = take_structure("pbc");
    array.widen(Kind::integer);
    if (array.kind != Kind::integer || array.size() != 3) throw CorruptFileError("pbc: expected three flags", begin);
    for (size_t i = 0; i < 3; ++i) row_.pbc[i] = array.integers[i] != 0 ? 1 : 0;
  }

  void take_column(const ColumnName& column, bool is_result) {
    RowValue& value = row_.next_value();
    value.level = column.level;
    value.key = column.key;
    const bool is_taken = take_value(in_, value.array);
    if (!is_taken || value.array.kind == Kind::text || value.array.kind == Kind::null) {
      --row_.n_values_;
      if (value.array.kind != Kind::null) row_.left_out.emplace_back(column.key);
      return;
    }
    if (!is_result || value.array.is_scalar()) return;
    value.array.widen(Kind::real);
    value.array.is_narrow = false;
  }

  // Values of atoms have a row for each; their shape is then that of one row.
  void check_rows() {
    for (RowValue& value : row_.values()) {
      if (value.level == Level::atom) drop_atoms_axis(value);
    }
  }

  void drop_atoms_axis(RowValue& value) const {
    std::vector<int64_t>& shape = value.array.shape;
    if (shape.empty() || shape[0] != std::ssize(row_.numbers)) {
      throw CorruptFileError(
          cat("expected a row for each of ", row_.numbers.size(), " atoms, got shape ", Shape(shape)))
          .at_field(value.key);
    }
    shape.erase(shape.begin());
  }

  void take_section(const Section& section, std::string_view prefix) {
    if (section.text.empty()) return;
    JsonReader in(section.text, serial::JsonStyle::python);
    if (in.peek() != Token::map) {
      if (in.peek() == Token::null) return;
      throw CorruptFileError("expected a map of values", section.begin).at_field(prefix);
    }
    auto scope = in.enter_map();
    for (std::string_view key; in.next_key(scope, key);) {
      RowValue& value = row_.next_value();
      value.key = prefix;
      value.key += key;
      constexpr std::string_view kOfAtoms = "atom_properties/";
      value.level = key.starts_with(kOfAtoms) ? Level::atom : Level::molecule;
      const bool is_taken = take_value(in, value.array);
      const bool is_null_of_atoms = value.level == Level::atom && value.array.kind == Kind::null;
      if (!is_taken || is_null_of_atoms) {
        row_.left_out.push_back(value.key);
        --row_.n_values_;
      } else if (value.level == Level::atom) {
        drop_atoms_axis(value);
      }
    }
  }

  JsonReader in_;
  Row& row_;
  Array& scratch_;
  Section pairs_, data_;
  bool has_numbers_ = false, has_positions_ = false;
};

void Row::parse(Bytes json) {
  thread_local Array scratch;
  RowParser(json, *this, scratch).parse();
}

std::vector<int64_t> parse_ids(Bytes json) {
  JsonReader in(json);
  std::vector<int64_t> ids;
  for (auto items = in.enter_list(); in.next_item(items);) {
    if (!push_integer(in.number(), ids)) throw CorruptFileError("ids: expected integers", in.position());
  }
  in.finish();
  return ids;
}

int64_t parse_id(Bytes json) {
  JsonReader in(json);
  std::vector<int64_t> ids;
  if (!push_integer(in.number(), ids)) throw CorruptFileError("id: expected an integer", in.position());
  in.finish();
  return ids[0];
}

}  // namespace atompack::lmdb
