// One shard on its way to its files (FORMAT.md#writing).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/zstd_encoder.h"
#include "formats/atlas_shards/meta.h"
#include "io/output_file.h"

namespace atompack::atlas_shards {

struct ShardPlan {
  ShardMeta meta;                                       // without the number of examples
  std::shared_ptr<const codec::ZstdEncoder> encoder{};  // null: bare blocks, or a dictionary that is yet to be trained
  bool trains = false;                                  // a dictionary of its blocks, which wait in memory for that
  unsigned n_threads = 1;
};

// For one thread at a time. Throws IoError.
class ShardBuilder {
 public:
  // The folder is there and empty.
  ShardBuilder(std::string folder, ShardPlan plan);

  uint64_t n_examples() const { return plan_.meta.stored_examples; }
  void add(std::vector<std::byte> block, uint64_t n_examples);

  // Writes what is left, and all synced. What was trained is the caller's to store; empty where there is none.
  std::vector<std::byte> finish();

 private:
  std::vector<std::byte> train();
  void flush();
  void store(Bytes block);

  std::string folder_;
  ShardPlan plan_;
  std::vector<std::vector<std::byte>> waiting_;
  uint64_t waiting_bytes_ = 0;
  std::optional<io::OutputFile> data_;  // from the first block on
  std::vector<uint64_t> offsets_{0};
};

}  // namespace atompack::atlas_shards
