// Locations of the chunks of a dataset of one dimension: FORMAT.md#chunk-indexes.
#pragma once

#include <vector>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

// A stored chunk; without an address if it was never written. Bit k of `filter_mask` means that filter k was skipped.
struct ChunkPlace {
  uint64_t address = Hdf5File::kNowhere;
  uint64_t bytes = 0;
  uint32_t filter_mask = 0;
};

// The chunks described by a layout message.
struct ChunkedLayout {
  uint64_t chunk_rows = 0;
  uint64_t element_bytes = 0;
  uint64_t index = Hdf5File::kNowhere;  // address of the index
};

// Throws CorruptFileError, or UnsupportedFormatError for layouts without chunks and of other versions.
ChunkedLayout read_layout(MetadataCursor cursor);

// The locations of the chunks of `n_rows` rows, in their order. Throws CorruptFileError, before it takes memory, if the
// file is too short for that many chunks.
std::vector<ChunkPlace> read_chunk_index(const Hdf5File& file, const ChunkedLayout& layout, uint64_t n_rows);

}  // namespace atompack::torch_cache
