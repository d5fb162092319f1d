#include "formats/torch_cache/rows/collection.h"

#include <algorithm>

namespace atompack::torch_cache {
namespace {

constexpr size_t kHeadBytes = 16;   // of the collection and of each object
constexpr size_t kMinBytes = 4096;  // minimum size in libhdf5

size_t padded_size(size_t bytes) { return (bytes + 7) / 8 * 8; }

template <typename Out, typename In>
void convert(const Payload& payload, std::byte* to) {
  for (size_t i = 0; i < payload.count; ++i) {
    to = store_le(to, static_cast<Out>(load_le<In>(payload.values + i * sizeof(In))));
  }
}

void write_values(const Payload& payload, std::byte* to) {
  if (payload.out == DType::int64 && payload.subtract != 0) {
    for (size_t i = 0; i < payload.count; ++i) {
      to = store_le(to, load_le<int64_t>(payload.values + i * sizeof(int64_t)) - payload.subtract);
    }
  } else if (payload.in == payload.out) {
    store(to, {payload.values, payload.bytes()});
  } else if (payload.out == DType::float32) {
    convert<float, double>(payload, to);
  } else {
    convert<double, float>(payload, to);
  }
}

std::byte* write_head(std::byte* to, uint16_t number, uint16_t references, uint64_t bytes) {
  to = store_le(to, number);
  to = store_le(to, references);
  to = store_le(to, uint32_t{0});
  return store_le(to, bytes);
}

}  // namespace

void append_collection(std::span<const Payload> payloads, std::vector<std::byte>& to) {
  size_t bytes = kHeadBytes;
  for (const Payload& payload : payloads) bytes += payload.count == 0 ? 0 : kHeadBytes + padded_size(payload.bytes());
  const size_t total = std::max(bytes, kMinBytes);
  const size_t start = to.size();
  to.resize(start + total);
  std::byte* at = store(to.data() + start, as_bytes({"GCOL\1\0\0\0", 8}));
  at = store_le(at, static_cast<uint64_t>(total));
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (payloads[i].count == 0) continue;
    at = write_head(at, static_cast<uint16_t>(i + 1), 1, payloads[i].bytes());
    write_values(payloads[i], at);
    at += padded_size(payloads[i].bytes());
  }
  // The remaining space is object 0, if its header fits.
  if (total - bytes >= kHeadBytes) write_head(at, 0, 0, total - bytes);
}

}  // namespace atompack::torch_cache
