#include "formats/array_file/layer/trailer.h"

#include <algorithm>

namespace atompack::array_file {

uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic) {
  if (trailer.size() < kTrailerBytes) {
    throw CorruptFileError(cat("trailer: expected ", kTrailerBytes, " bytes, got ", trailer.size()));
  }
  ByteCursor cursor(trailer);
  const auto size = cursor.read_le<uint64_t>("footer size");
  if (as_text(cursor.take(magic.size(), "magic")) != magic) {
    throw CorruptFileError(cat("magic: expected ", magic, " at the end"));
  }
  const uint64_t limit = file_bytes - kTrailerBytes;
  if (size > limit) throw CorruptFileError(cat("footer size: expected at most ", limit, ", got ", size));
  return size;
}

Parts split_file(Bytes file, std::string_view magic) {
  const uint64_t size = footer_bytes(file.last(std::min<size_t>(file.size(), kTrailerBytes)), file.size(), magic);
  const Bytes body = file.first(file.size() - kTrailerBytes);
  return {body.first(body.size() - size), body.last(size)};
}

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic) {
  const uint64_t size = archive.size();
  archive.resize(size + kTrailerBytes);
  store(store_le(archive.data() + size, size), as_bytes(magic));
  return archive;
}

}  // namespace atompack::array_file
