// File names of a dataset (FORMAT.md), and limits that readers and writers share.
#pragma once

#include <cstdint>

namespace atompack::atlas_shards {

inline constexpr char kMetaFile[] = "meta.json";
inline constexpr char kIndexFile[] = "index.npy";
inline constexpr char kDataFile[] = "data.bin";
inline constexpr char kDictionaryFile[] = "zstd_dict.bin";

inline constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 20;
inline constexpr unsigned kRemoteThreads = 32;  // that wait for requests to a store

}  // namespace atompack::atlas_shards
