#include "formats/parsed/survey.h"

#include <algorithm>

#include "base/error.h"

namespace atompack::parsed {

namespace {

// Fields have no place for strings of atoms: where others of the key are numbers, those count.
bool has_no_values(Level level, Kind kind) {
  return kind == Kind::null || (level == Level::atom && kind == Kind::text);
}

}  // namespace

void check_key_count(size_t count) {
  if (count > kMaxKeys)
    throw UnsupportedFormatError(cat("keys: expected at most ", kMaxKeys, " different ones, got more"));
}

SurveyedField& Survey::field_of(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape,
                                bool is_narrow) {
  if (next_ >= fields_.size() || fields_[next_].level != level || fields_[next_].key != key) {
    const auto [place, is_new] = places_.try_emplace({level, std::string(key)}, fields_.size());
    if (is_new)
      fields_.push_back({level, std::string(key), kind, std::vector<int64_t>(shape.begin(), shape.end()), is_narrow});
    next_ = place->second;
  }
  SurveyedField& field = fields_[next_];
  next_ = (next_ + 1) % fields_.size();
  return field;
}

void Survey::add(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape, bool is_narrow) {
  SurveyedField& field = field_of(level, key, kind, shape, is_narrow);
  if (has_no_values(level, kind)) return;
  if (has_no_values(level, field.kind)) {
    field = {level, std::string(key), kind, std::vector<int64_t>(shape.begin(), shape.end()), is_narrow};
    return;
  }
  field.is_narrow = field.is_narrow && is_narrow && field.kind == kind;
  field.kind = wider(field.kind, kind);
  if (field.shape && !std::ranges::equal(*field.shape, shape)) field.shape.reset();
}

void Survey::add(const SurveyedField& field) {
  add(field.level, field.key, field.kind, field.shape.value_or(std::vector<int64_t>()), field.is_narrow);
  if (!field.shape && !has_no_values(field.level, field.kind))
    fields_[places_.at({field.level, field.key})].shape.reset();
}

void Survey::add(const Survey& next) {
  for (const SurveyedField& field : next.fields_) add(field);
  check_key_count(fields_.size());
  has_cells_ = has_cells_ || next.has_cells_;
  for (const auto& [key, count] : next.left_out_) leave_out(key, count);
}

void Survey::leave_out(std::string_view key, uint64_t count) {
  const auto found = left_out_.find(key);
  if (found != left_out_.end()) {
    found->second += count;
  } else {
    left_out_.emplace(key, count);
  }
}

}  // namespace atompack::parsed
