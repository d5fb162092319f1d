// Zstandard frames with a dictionary, and training of dictionaries.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"

struct ZSTD_CDict_s;

namespace atompack::codec {

// Returns at most `max_bytes`, possibly fewer; empty if the samples are too small or too few.
std::vector<std::byte> train_zstd_dictionary(std::span<const Bytes> samples, uint64_t max_bytes);

// Encoder of frames that declare their content size and their dictionary, if any; without checksum. Thread-safe.
class ZstdEncoder {
 public:
  // Keeps a copy of the dictionary; empty for frames without one.
  ZstdEncoder(int level, Bytes dictionary);

  std::vector<std::byte> compress(Bytes content) const;

 private:
  struct Free {
    void operator()(ZSTD_CDict_s* dictionary) const;
  };
  int level_;
  std::unique_ptr<ZSTD_CDict_s, Free> dictionary_;  // null without a dictionary
};

}  // namespace atompack::codec
