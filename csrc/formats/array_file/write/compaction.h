// Compaction: merging of all layers of an array file.
#pragma once

#include "formats/array_file/layer/layer_writer.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"

namespace atompack::array_file {

// Writes a whole new base of the existing arrays, in order of first appearance, each chunk from its newest layer;
// returns their statistics. One chunk is in memory at a time. Throws CorruptFileError; UnsupportedFormatError for
// arrays with attributes and lists.
StatisticsList write_compacted(const Reader& reader, LayerWriter& base);

}  // namespace atompack::array_file
