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
  Kind kind;                                  // the widest of all frames'
  std::optional<std::vector<int64_t>> shape;  // of a frame's value or an atom's row; absent: it differs
};

struct Survey {
  int64_t n_frames = 0;
  std::vector<SurveyedField> fields;  // in the order in which they first come
};

// Ends at the first damage without a word: telling is left to the reader, which gets as far.
Survey survey(const std::string& path);

}  // namespace atompack::extxyz
