#include "formats/extxyz/survey.h"

#include <map>

#include "base/error.h"
#include "formats/extxyz/frame_head.h"
#include "formats/extxyz/value.h"

namespace atompack::extxyz {
namespace {

class Surveyor {
 public:
  void add(const FrameHead& head) {
    for (const Entry& entry : head.entries) {
      infer_value(entry, value_);
      add(Level::molecule, entry.key, value_.kind, value_.shape);
    }
    for (const ColumnSpec& column : head.layout.columns) {
      if (column.role == Role::field) add(Level::atom, column.key, column.kind, column.shape());
    }
    ++found_.n_frames;
  }

  Survey finish() && { return std::move(found_); }

 private:
  void add(Level level, const std::string& key, Kind kind, const std::vector<int64_t>& shape) {
    const auto [place, fresh] = places_.try_emplace({level, key}, found_.fields.size());
    if (fresh) found_.fields.push_back({level, key, kind, shape});
    SurveyedField& field = found_.fields[place->second];
    field.kind = wider(field.kind, kind);
    if (field.shape != shape) field.shape.reset();
  }

  Survey found_;
  std::map<std::pair<Level, std::string>, size_t> places_;
  Array value_;
};

bool skip_lines(LineReader& lines, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!lines.next()) return false;
  }
  return true;
}

}  // namespace

Survey survey(const std::string& path) {
  LineReader lines(path);
  FrameHeadReader heads;
  Surveyor surveyor;
  try {
    while (const FrameHead* const head = heads.next(lines)) {
      if (!skip_lines(lines, head->n_atoms)) break;
      surveyor.add(*head);
    }
  } catch (const DataError&) {
    return std::move(surveyor).finish();
  }
  return std::move(surveyor).finish();
}

}  // namespace atompack::extxyz
