// File names of a dataset (FORMAT.md).
#pragma once

namespace atompack::atlas_shards {

inline constexpr char kMetaFile[] = "meta.json";
inline constexpr char kIndexFile[] = "index.npy";
inline constexpr char kDataFile[] = "data.bin";
inline constexpr char kDictionaryFile[] = "zstd_dict.bin";

}  // namespace atompack::atlas_shards
