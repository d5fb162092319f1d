#include "formats/array_file/layer/block_cache.h"

#include "threads/per_process.h"

namespace atompack::array_file {
namespace {

// Created when the library is loaded, so that no fork can interrupt it.
const io::PerProcess<BlockCache> cache([] { return std::make_unique<BlockCache>(uint64_t{256} << 20); });

}  // namespace

BlockCache& block_cache() { return cache.get(); }

}  // namespace atompack::array_file
