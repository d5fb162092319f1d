// Compressed units for tests, made by the libraries themselves.
#pragma once

#include <lz4.h>
#include <zstd.h>

#include <vector>

#include "byte_string.h"
#include "codec/codec.h"

namespace atompack::test {

inline ByteString lz4_unit(Bytes raw) {
  std::vector<std::byte> out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw.size()))));
  const int n = LZ4_compress_default(reinterpret_cast<const char*>(raw.data()), reinterpret_cast<char*>(out.data()),
                                     static_cast<int>(raw.size()), static_cast<int>(out.size()));
  return ByteString().append(Bytes(out).first(static_cast<size_t>(n)));
}

struct ZstdOptions {
  int level = 3;
  bool content_size = true;
  bool checksum = false;
};

inline ByteString zstd_unit(Bytes raw, const ZstdOptions& options = {}) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, options.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, options.content_size);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, options.checksum);
  std::vector<std::byte> out(ZSTD_compressBound(raw.size()));
  const size_t n = ZSTD_compress2(context, out.data(), out.size(), raw.data(), raw.size());
  ZSTD_freeCCtx(context);
  return ByteString().append(Bytes(out).first(n));
}

inline ByteString unit_of(codec::Codec codec, Bytes raw) {
  if (codec == codec::Codec::lz4) return lz4_unit(raw);
  return codec == codec::Codec::zstd ? zstd_unit(raw) : ByteString().append(raw);
}

// Bytes that compress a little.
inline ByteString sample(size_t size) {
  ByteString bytes;
  for (size_t i = 0; i < size; ++i) bytes.put(static_cast<uint8_t>(i * i / 7));
  return bytes;
}

}  // namespace atompack::test
