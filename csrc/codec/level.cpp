#include "codec/level.h"

#include <lz4hc.h>
#include <zstd.h>

#include "base/error.h"

namespace atompack::codec {

LevelRange level_range(Codec codec) {
  if (codec == Codec::lz4) return {0, LZ4HC_CLEVEL_MAX};
  return {ZSTD_minCLevel(), ZSTD_maxCLevel()};
}

void check_level(Codec codec, int level) {
  const auto [min, max] = level_range(codec);
  if (level >= min && level <= max) return;
  throw FieldError(cat("level: expected ", min, " to ", max, " for codec ", name_of(codec), ", got ", level));
}

}  // namespace atompack::codec
