#include "codec/adler32.h"

#include <zlib.h>

namespace atompack::codec {

uint32_t adler32(Bytes bytes) {
  return static_cast<uint32_t>(adler32_z(1, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace atompack::codec
