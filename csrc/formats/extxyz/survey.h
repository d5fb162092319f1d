// Survey of a file's keys and their kinds: one pass over the comment lines that skips atom lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/extxyz/array.h"
#include "model/molecule_source.h"

namespace atompack::extxyz {

struct SurveyedField {
  Level level;
  std::string key;
  Kind kind;                                  // the widest kind of all frames
  std::optional<std::vector<int64_t>> shape;  // shape of a frame's value or an atom's row; nullopt: it differs
};

struct Survey {
  int64_t n_frames = 0;
  std::vector<SurveyedField> fields;  // in the order of first appearance
};

// Stops silently at the first damage: the reader, which gets as far, reports it.
Survey survey(const std::string& path);

}  // namespace atompack::extxyz
