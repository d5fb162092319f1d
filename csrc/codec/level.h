// Valid compression levels of each codec.
#pragma once

#include "codec/codec.h"

namespace atompack::codec {

struct LevelRange {
  int min, max;
};

// zstd: the range of the linked library. lz4: fast mode up to 2, high-compression mode from 3. Without a codec the
// level is unused, and the union of all ranges is accepted.
LevelRange level_range(Codec codec);

// Throws FieldError if the level is outside the codec's range; the libraries would clamp it silently.
void check_level(Codec codec, int level);

}  // namespace atompack::codec
