// Zstandard frames that refer to a dictionary, and dictionaries made of samples.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"

struct ZSTD_CDict_s;

namespace atompack::codec {

// At most `most_bytes`, may be fewer; nothing where the samples are too small or too few for one.
std::vector<std::byte> train_zstd_dictionary(std::span<const Bytes> samples, uint64_t most_bytes);

// Makes frames that declare their content size, and the dictionary where there is one; without checksum. For any
// number of threads.
class ZstdEncoder {
 public:
  // Keeps a copy of the dictionary; empty: frames without.
  ZstdEncoder(int level, Bytes dictionary);

  std::vector<std::byte> compress(Bytes content) const;

 private:
  struct Free {
    void operator()(ZSTD_CDict_s* dictionary) const;
  };
  int level_;
  std::unique_ptr<ZSTD_CDict_s, Free> dictionary_;  // null without one
};

}  // namespace atompack::codec
