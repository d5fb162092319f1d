#include "formats/array_file/layer/block_cache.h"

namespace atompack::array_file {
namespace {

// Created when the library is loaded, so that no fork can interrupt it.
const std::shared_ptr<BlockCache> cache = std::make_shared<BlockCache>(uint64_t{256} << 20);

}  // namespace

BlockCache::BlockCache(uint64_t limit)
    : limit_(limit), content_([limit] { return std::make_unique<Content>(limit); }) {}

std::shared_ptr<BlockCache> shared_block_cache() { return cache; }

}  // namespace atompack::array_file
