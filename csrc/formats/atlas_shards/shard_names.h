// Names of the folders of shards (FORMAT.md#names).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atompack::atlas_shards {

// The name of the shard that is appended after the one of this name: behind it in byte order, and of digits only if it
// is. No existing folder has to be renamed, so that open readers find their files.
std::string successor_of(const std::string& name);

// The names of `n` shards that were written at once, or whose first ones were and the others appended: numbers of
// `width` digits, continued by successor_of().
std::vector<std::string> numbered_names(uint64_t n, size_t width);

// The digits of the last number below `n`: the width of the names of shards that are written at once.
size_t usual_width(uint64_t n);

// The names of `n` shards of which those in `present` still exist, in this order; nullopt if they do not have the names
// that a writer gives.
std::optional<std::vector<std::string>> original_names(uint64_t n, std::span<const std::string> present);

}  // namespace atompack::atlas_shards
