#include "codec/inflate.h"

#include <zlib.h>

#include <new>

namespace atompack::codec {

void inflate(Bytes stream, std::span<std::byte> out) {
  uLongf n_out = out.size();
  uLong n_in = stream.size();
  const int status =
      ::uncompress2(reinterpret_cast<Bytef*>(out.data()), &n_out, reinterpret_cast<const Bytef*>(stream.data()), &n_in);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  if (status == Z_BUF_ERROR) {
    throw CorruptFileError(cat("deflate stream: expected ", out.size(), " bytes, got more"));
  }
  if (status != Z_OK) {
    throw CorruptFileError(cat("deflate stream: expected a complete one, got an error (", ::zError(status), ')'));
  }
  if (n_out != out.size()) {
    throw CorruptFileError(cat("deflate stream: expected ", out.size(), " bytes, got ", n_out));
  }
}

}  // namespace atompack::codec
