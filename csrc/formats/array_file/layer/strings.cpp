#include "formats/array_file/layer/strings.h"

#include "base/error.h"

namespace atompack::array_file {

void check_room_for_offsets(uint64_t count, uint64_t chunk_bytes) {
  if (count < chunk_bytes / 4) return;
  throw_corrupt("string offsets: expected more than ", count, ", got ", chunk_bytes / 4);
}

Strings::Strings(Bytes chunk, uint64_t count) {
  check_room_for_offsets(count, chunk.size());
  offsets_ = chunk.first(4 * (count + 1));
  payload_ = chunk.subspan(offsets_.size());
  if (offset(0) != 0) throw_corrupt("first string offset: expected 0, got ", offset(0));
  for (uint64_t i = 0; i < count; ++i) {
    if (offset(i + 1) < offset(i)) {
      throw_corrupt("string offset ", i + 1, ": expected at least ", offset(i), ", got ", offset(i + 1));
    }
  }
  if (offset(count) != payload_.size()) {
    throw_corrupt("last string offset: expected ", payload_.size(), ", got ", offset(count));
  }
}

}  // namespace atompack::array_file
