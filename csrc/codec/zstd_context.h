// Per-thread compression context of zstd.
#pragma once

#include <zstd.h>

namespace atompack::codec {

// Lives as long as the thread. Throws std::bad_alloc.
ZSTD_CCtx* zstd_compression_context();

}  // namespace atompack::codec
