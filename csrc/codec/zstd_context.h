// The state of zstd's compressor that each thread keeps.
#pragma once

#include <zstd.h>

namespace atompack::codec {

// Lives as long as the thread. Throws std::bad_alloc.
ZSTD_CCtx* zstd_compression_context();

}  // namespace atompack::codec
