#include "codec/lz4_codec.h"

#include <lz4.h>

#include <algorithm>
#include <limits>

namespace atompack::codec {

// A byte of a block yields at most 255 bytes of output (a run of length bytes in a match).
uint64_t lz4_decoded_bound(Bytes stored) { return 255 * static_cast<uint64_t>(stored.size()); }

void lz4_decompress(Bytes stored, std::span<std::byte> out) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  if (stored.size() > kMost || out.size() > kMost) {
    throw CorruptFileError(
        cat("lz4 block: expected at most ", kMost, " bytes, got ", std::max(stored.size(), out.size())));
  }
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(out.data()),
                                      static_cast<int>(stored.size()), static_cast<int>(out.size()));
  if (got < 0) throw CorruptFileError(cat("lz4 block: does not decode to ", out.size(), " bytes"));
  if (static_cast<size_t>(got) != out.size()) {
    throw CorruptFileError(cat("lz4 block: expected ", out.size(), " bytes, got ", got));
  }
}

}  // namespace atompack::codec
