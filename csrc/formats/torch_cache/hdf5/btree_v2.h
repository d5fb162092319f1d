// B-trees of version 2, which list links and attributes in a heap: FORMAT.md#b-trees.
#pragma once

#include <functional>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

enum class RecordKind : uint8_t { huge_object = 1, link_by_name = 5, attribute_by_name = 8 };

// Calls `visit` with each record, of at least `min_bytes`, and its offset in the file. Throws CorruptFileError if nodes
// refer to each other in circles.
void for_each_record(const Hdf5File& file, uint64_t tree, RecordKind kind, uint64_t min_bytes,
                     const std::function<void(MetadataCursor)>& visit);

}  // namespace atompack::torch_cache
