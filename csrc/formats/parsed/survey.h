// Survey of the fields of a source: the kind and shape of all values under each key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/parsed/array.h"
#include "model/molecule_source.h"

namespace atompack::parsed {

struct SurveyedField {
  Level level;
  std::string key;
  Kind kind;                                  // the widest kind of all molecules
  std::optional<std::vector<int64_t>> shape;  // of a molecule's value or an atom's row; nullopt: it differs
  bool is_narrow = false;                     // all values have the same kind, and a type of 32 bits
};

// Batches have a column for each key of a file.
inline constexpr size_t kMaxKeys = 1 << 16;
// Throws UnsupportedFormatError if there are more.
void check_key_count(size_t count);

// Not thread-safe.
class Survey {
 public:
  void add(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape, bool is_narrow = false);
  void add(const SurveyedField& field);
  // Adds the fields of molecules that follow those of this survey. Throws UnsupportedFormatError for too many keys.
  void add(const Survey& next);
  void set_has_cells() { has_cells_ = true; }
  // Counts values that no field can hold.
  void leave_out(std::string_view key, uint64_t count = 1);

  // In the order of first appearance.
  const std::vector<SurveyedField>& fields() const { return fields_; }
  // Throws std::out_of_range if there is none.
  const SurveyedField& field(Level level, const std::string& key) const { return fields_[places_.at({level, key})]; }
  // True if any molecule has a cell other than zeros.
  bool has_cells() const { return has_cells_; }
  const std::map<std::string, uint64_t, std::less<>>& left_out() const { return left_out_; }

 private:
  SurveyedField& field_of(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape, bool is_narrow);

  std::vector<SurveyedField> fields_;
  std::map<std::pair<Level, std::string>, size_t, std::less<>> places_;
  size_t next_ = 0;  // usually all molecules have the same keys in the same order
  bool has_cells_ = false;
  std::map<std::string, uint64_t, std::less<>> left_out_;
};

}  // namespace atompack::parsed
