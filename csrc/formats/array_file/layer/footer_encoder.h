// Encoder of footers, byte for byte as the library writes them (FORMAT.md, "Footer").
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/definition.h"

namespace atompack::array_file {

// A range of a decoded block.
struct ChunkPlace {
  uint32_t block = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

struct PlacedChunk {
  uint64_t cell = 0;  // number in the array's grid
  ChunkPlace place;
};

// One layer's part of an array.
struct LayerArray {
  ArrayDefinition definition;  // includes its chunk shape
  bool deleted = false;
  std::vector<PlacedChunk> chunks;
  std::vector<Attribute> attributes = {};          // version 4: with tags up to that of strings
  std::optional<ArrayStatistics> statistics = {};  // only written to footers of version 6
};

struct LayerContents {
  std::vector<BlockRecord> blocks;
  std::vector<const LayerArray*> arrays;
  uint32_t number = 0;         // 0: the base
  std::string_view base_hint;  // path of a sidecar's base
  uint32_t version = kFooterVersion;
};

// Version 4, or 6 if the contents say so. Types of list elements are not written: the arrays have none.
std::vector<std::byte> encode_footer(const LayerContents& contents);

// The footer with its trailer.
std::vector<std::byte> encode_layer_end(const LayerContents& contents);

}  // namespace atompack::array_file
