#include "formats/lmdb/row_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/shape.h"
#include "formats/lmdb/value_json.h"
#include "serial/json/reader.h"

namespace atompack::lmdb {
namespace {

using parsed::wider;
using serial::JsonReader;
using serial::Number;
using serial::Token;

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
  RowParser(Bytes json, Row& row) : in_(json, serial::JsonStyle::python), row_(row) {}

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
  Array scratch_;
  Section pairs_, data_;
  bool has_numbers_ = false, has_positions_ = false;
};

void Row::parse(Bytes json) { RowParser(json, *this).parse(); }

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
