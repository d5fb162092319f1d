#include "formats/parsed/survey.h"

#include <algorithm>

namespace atompack::parsed {

SurveyedField& Survey::field_of(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape) {
  if (next_ >= fields_.size() || fields_[next_].level != level || fields_[next_].key != key) {
    const auto [place, is_new] = places_.try_emplace({level, std::string(key)}, fields_.size());
    if (is_new) fields_.push_back({level, std::string(key), kind, std::vector<int64_t>(shape.begin(), shape.end())});
    next_ = place->second;
  }
  SurveyedField& field = fields_[next_];
  next_ = (next_ + 1) % fields_.size();
  return field;
}

void Survey::add(Level level, std::string_view key, Kind kind, std::span<const int64_t> shape) {
  SurveyedField& field = field_of(level, key, kind, shape);
  field.kind = wider(field.kind, kind);
  if (field.shape && !std::ranges::equal(*field.shape, shape)) field.shape.reset();
}

void Survey::add(const Survey& next) {
  for (const SurveyedField& field : next.fields_) {
    add(field.level, field.key, field.kind, field.shape.value_or(std::vector<int64_t>()));
    if (!field.shape) fields_[places_.at({field.level, field.key})].shape.reset();
  }
  has_cells_ = has_cells_ || next.has_cells_;
}

}  // namespace atompack::parsed
