// Field offsets in the records of a footer.
#pragma once

#include "formats/array_file/layer/archive.h"

namespace atompack::array_file {

inline constexpr Layout kU32{4, 4};
inline constexpr Layout kStringSlot{16, 8};

struct RootLayout {
  static constexpr uint64_t kVersion = 0, kBlocks = 8, kArrays = 24, kAttributeKeys = 40, kAttributeValues = 56;
  static constexpr uint64_t kNumber = 72, kBaseHint = 80;
  static constexpr Layout kLayout{96, 8};
};

struct BlockLayout {
  static constexpr uint64_t kId = 0, kOffset = 8, kStoredBytes = 16, kDecodedBytes = 24, kCodec = 32, kCodecName = 40;
  static constexpr Layout kLayout{56, 8};
};

struct ArrayLayout {
  static constexpr uint64_t kName = 0, kType = 16, kShape = 40, kDimensionNames = 56, kChunkShape = 72, kChunks = 88;
  static constexpr uint64_t kHasFill = 104, kFill = 112, kDeleted = 136, kAttributes = 144;
  static constexpr Layout kLayout{168, 8};
};

struct ChunkLayout {
  static constexpr uint64_t kCoordinate = 0, kBlock = 16, kOffset = 20, kBytes = 24;
  static constexpr Layout kLayout{32, 8};
};

// Types, fill values, attribute values and attribute lists: a tag, and a payload at its own alignment.
struct TaggedLayout {
  static constexpr uint64_t kPayload = 8;
  static constexpr Layout kLayout{24, 8};
};

}  // namespace atompack::array_file
