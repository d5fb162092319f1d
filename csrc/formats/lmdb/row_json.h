// Row of an ASE database as JSON: structure, results of calculators, key-value pairs and data; FORMAT.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/parsed/array.h"
#include "model/molecule_source.h"

namespace atompack::lmdb {

using parsed::Array;
using parsed::Kind;

// Value of a row. Its key begins with "key_value_pairs/" or "data/" unless it is a column of the row.
struct RowValue {
  Level level = Level::molecule;
  std::string key;
  Array array;  // for atoms: without the axis of the atoms in its shape
};

// One row. The memory is reused from row to row.
class Row {
 public:
  std::vector<double> positions;  // (n, 3)
  std::vector<uint8_t> numbers;   // (n,)
  std::array<double, 9> cell;     // zeros: none
  std::array<uint8_t, 3> pbc;
  std::vector<std::string> left_out;  // keys of values that no field can hold

  // Columns first, then key-value pairs, then data.
  std::span<const RowValue> values() const { return std::span(values_).first(n_values_); }
  std::span<RowValue> values() { return std::span(values_).first(n_values_); }

  // Throws CorruptFileError, with the offset in the JSON.
  void parse(Bytes json);

 private:
  friend class RowParser;
  RowValue& next_value() {
    if (n_values_ == values_.size()) values_.emplace_back();
    return values_[n_values_++];
  }

  std::vector<RowValue> values_;
  size_t n_values_ = 0;
};

// Integers of a JSON list, for instance the ids of deleted rows.
std::vector<int64_t> parse_ids(Bytes json);
// One integer.
int64_t parse_id(Bytes json);

}  // namespace atompack::lmdb
