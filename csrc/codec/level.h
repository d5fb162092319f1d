// The compression levels that a codec takes.
#pragma once

#include "codec/codec.h"

namespace atompack::codec {

struct LevelRange {
  int min, max;
};

// zstd: what the library at hand takes. lz4: up to 2 its fast mode, from 3 its high-compression mode. Without a codec
// the level is not used, and any that some codec takes will do.
LevelRange level_range(Codec codec);

// Throws FieldError for a level outside of the codec's range: libraries would clamp it and say nothing.
void check_level(Codec codec, int level);

}  // namespace atompack::codec
