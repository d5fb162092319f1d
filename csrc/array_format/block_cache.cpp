#include "array_format/block_cache.h"

#include "io/per_process.h"

namespace atompack::array_format {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

// Made when the library is loaded: a fork cannot fall into the middle of that.
const io::PerProcess<BlockCache> cache([] { return std::make_unique<BlockCache>(kMostBytes); });

}  // namespace

BlockCache& block_cache() { return cache.get(); }

}  // namespace atompack::array_format
