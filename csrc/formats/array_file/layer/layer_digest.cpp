#include "formats/array_file/layer/layer_digest.h"

#include <algorithm>
#include <array>
#include <vector>

#include "codec/sha256.h"
#include "formats/array_file/layer/trailer.h"

namespace atompack::array_file {
namespace {

// The last bytes of a file, at most `max_bytes`.
std::vector<std::byte> end_of(const io::ReadableFile& file, uint64_t limit) {
  const uint64_t size = file.size();
  std::vector<std::byte> bytes(std::min(size, limit));
  bytes.resize(file.read_at(size - bytes.size(), bytes));
  return bytes;
}

uint64_t footer_and_trailer_bytes(const io::ReadableFile& file, Bytes end) {
  ByteCursor trailer(end.last(std::min<size_t>(end.size(), kTrailerBytes)));
  const auto footer = trailer.read_le<uint64_t>("footer size");
  if (as_text(trailer.take(kLayerMagic.size(), "magic")) != kLayerMagic) {
    throw CorruptFileError(cat("magic: expected ", kLayerMagic, " at the end"));
  }
  const uint64_t limit = file.size() - kTrailerBytes;
  if (footer > limit) throw CorruptFileError(cat("footer size: expected at most ", limit, ", got ", footer));
  return footer + kTrailerBytes;
}

}  // namespace

std::string layer_digest(const io::ReadableFile& layer) {
  constexpr uint64_t kEndBytes = 64 * 1024;
  try {
    std::vector<std::byte> seen(sizeof(uint64_t));
    store_le(seen.data(), layer.size());
    std::vector<std::byte> begin(std::min(layer.size(), kEndBytes));
    begin.resize(layer.read_at(0, begin));
    std::vector<std::byte> end = end_of(layer, kEndBytes);
    const uint64_t footer = footer_and_trailer_bytes(layer, end);
    if (footer > kEndBytes) end = end_of(layer, footer);
    seen.insert(seen.end(), begin.begin(), begin.end());
    seen.insert(seen.end(), end.begin(), end.end());
    return codec::sha256_hex(seen);
  } catch (CorruptFileError& error) {
    error.in_file(layer.path());
    throw;
  }
}

}  // namespace atompack::array_file
