#include "codec/inflate.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/error.h"

namespace atompack::codec {

void inflate(Bytes stream, std::span<std::byte> out) {
  uLongf n_out = out.size();
  uLong n_in = stream.size();
  const int status =
      ::uncompress2(reinterpret_cast<Bytef*>(out.data()), &n_out, reinterpret_cast<const Bytef*>(stream.data()), &n_in);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  if (status == Z_BUF_ERROR) throw_corrupt("deflate stream: expected ", out.size(), " bytes, got more");
  if (status != Z_OK) throw_corrupt("deflate stream: expected a complete one, got an error (", ::zError(status), ')');
  if (n_out != out.size()) throw_corrupt("deflate stream: expected ", out.size(), " bytes, got ", n_out);
}

namespace {

constexpr size_t kFirstRatio = 6, kSmallest = 4096;

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const { libdeflate_free_decompressor(decompressor); }
};

libdeflate_decompressor* decompressor_of_thread() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> own(libdeflate_alloc_decompressor());
  if (own == nullptr) throw std::bad_alloc();
  return own.get();
}

}  // namespace

Bytes inflate_whole(Bytes stream, std::vector<std::byte>& memory) {
  const size_t max_bytes = std::min(stream.size() * kMaxInflateRatio, kMaxInflatedBytes);
  if (memory.size() < kSmallest) memory.resize(kSmallest);
  if (const size_t first = std::min(stream.size() * kFirstRatio, max_bytes); memory.size() < first)
    memory.resize(first);
  for (;;) {
    size_t n_out = 0;
    const libdeflate_result result = libdeflate_zlib_decompress(decompressor_of_thread(), stream.data(), stream.size(),
                                                                memory.data(), memory.size(), &n_out);
    if (result == LIBDEFLATE_SUCCESS) return Bytes(memory).first(n_out);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE && memory.size() >= kMaxInflatedBytes) {
      throw_corrupt("zlib stream: expected at most ", kMaxInflatedBytes, " bytes, got more");
    }
    if (result != LIBDEFLATE_INSUFFICIENT_SPACE || memory.size() >= max_bytes) {
      throw CorruptFileError("zlib stream: expected a complete one, got damaged bytes");
    }
    const size_t larger = std::min(4 * memory.size(), max_bytes);
    memory.clear();  // decoded again from the beginning: nothing to copy
    memory.resize(larger);
  }
}

}  // namespace atompack::codec
