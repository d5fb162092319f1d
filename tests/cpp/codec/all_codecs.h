#pragma once

#include "codec/codec.h"

namespace atompack::codec {

inline constexpr Codec kAllCodecs[] = {Codec::none, Codec::lz4, Codec::zstd};

}  // namespace atompack::codec
