#include "array_format/trailer.h"

namespace atompack::array_format {

Parts split_file(Bytes file, std::string_view magic) {
  if (file.size() < kTrailerBytes) {
    throw CorruptFileError(cat("trailer: expected ", kTrailerBytes, " bytes, got ", file.size()));
  }
  const Bytes body = file.first(file.size() - kTrailerBytes);
  ByteCursor trailer(file.last(kTrailerBytes));
  const auto size = trailer.read_le<uint64_t>("footer size");
  if (as_text(trailer.take(magic.size(), "magic")) != magic) {
    throw CorruptFileError(cat("magic: expected ", magic, " at the end"));
  }
  if (size > body.size()) throw CorruptFileError(cat("footer size: expected at most ", body.size(), ", got ", size));
  return {body.first(body.size() - size), body.last(size)};
}

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic) {
  const uint64_t size = archive.size();
  archive.resize(size + kTrailerBytes);
  store(store_le(archive.data() + size, size), as_bytes(magic));
  return archive;
}

}  // namespace atompack::array_format
