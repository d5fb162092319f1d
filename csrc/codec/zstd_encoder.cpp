#include "codec/zstd_encoder.h"

#include <zdict.h>
#include <zstd.h>

#include <new>

#include "base/error.h"
#include "codec/zstd_codec.h"
#include "codec/zstd_context.h"

namespace atompack::codec {
namespace {

struct FreeCompression {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// The library trains on three quarters of the samples; with samples of only a few bytes in total it divides by zero or
// reads past their end.
constexpr size_t kMinSamples = 7;
constexpr size_t kMinBytes = 256;

bool are_enough(std::span<const Bytes> samples) {
  size_t bytes = 0;
  for (const Bytes sample : samples.first(samples.size() / 2)) bytes += sample.size();
  return samples.size() >= kMinSamples && bytes >= kMinBytes;
}

}  // namespace

ZSTD_CCtx* zstd_compression_context() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeCompression> context(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

std::vector<std::byte> train_zstd_dictionary(std::span<const Bytes> samples, uint64_t max_bytes) {
  if (!are_enough(samples)) return {};
  std::vector<std::byte> together;
  std::vector<size_t> sizes;
  for (const Bytes sample : samples) {
    together.insert(together.end(), sample.begin(), sample.end());
    sizes.push_back(sample.size());
  }
  std::vector<std::byte> dictionary(max_bytes);
  const size_t got = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), together.data(), sizes.data(),
                                           static_cast<unsigned>(sizes.size()));
  dictionary.resize(ZDICT_isError(got) ? 0 : got);
  return dictionary;
}

void ZstdEncoder::Free::operator()(ZSTD_CDict_s* dictionary) const { ZSTD_freeCDict(dictionary); }

ZstdEncoder::ZstdEncoder(int level, Bytes dictionary) : level_(level) {
  if (dictionary.empty()) return;
  dictionary_.reset(ZSTD_createCDict(dictionary.data(), dictionary.size(), level));
  if (!dictionary_) throw std::bad_alloc();
}

std::vector<std::byte> ZstdEncoder::compress(Bytes content) const {
  std::vector<std::byte> frame(zstd_compressed_bound(content.size()));
  if (!dictionary_) {
    frame.resize(zstd_compress(level_, content, frame));
    return frame;
  }
  const size_t got = ZSTD_compress_usingCDict(zstd_compression_context(), frame.data(), frame.size(), content.data(),
                                              content.size(), dictionary_.get());
  if (ZSTD_isError(got)) throw InternalError(cat("zstd: ", ZSTD_getErrorName(got)));
  frame.resize(got);
  return frame;
}

}  // namespace atompack::codec
