// Chunk indexes that are arrays, of a fixed length and of one that grows: FORMAT.md#chunk-indexes.
#pragma once

#include <span>

#include "formats/torch_cache/hdf5/chunk_index.h"

namespace atompack::torch_cache {

// An element of an array is an address; with filters, also the stored size and a filter mask.
struct ChunkElement {
  bool has_filters = false;
  uint64_t chunk_bytes = 0;  // without filters

  ChunkPlace read(MetadataCursor& cursor, size_t element_bytes) const;
};

// Read the places of as many chunks as there are in `chunks`; those that no block holds are left alone.
void read_fixed_array(const Hdf5File& file, uint64_t address, const ChunkElement& element,
                      std::span<ChunkPlace> chunks);
void read_extensible_array(const Hdf5File& file, uint64_t address, const ChunkElement& element,
                           std::span<ChunkPlace> chunks);

}  // namespace atompack::torch_cache
