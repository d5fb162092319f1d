// Writer of one shard's files (FORMAT.md#writing).
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
#include "threads/ordered_pipeline.h"

namespace atompack::atlas_shards {

struct ShardPlan {
  ShardMeta meta;                                       // without the number of examples
  std::shared_ptr<const codec::ZstdEncoder> encoder{};  // null: bare blocks, or a dictionary that is trained later
  // trains a dictionary on its blocks, which are kept in memory until then
  bool trains = false;
  unsigned n_threads = 1;
};

// For one thread at a time. Throws IoError.
class ShardBuilder {
 public:
  // The folder must exist and be empty.
  ShardBuilder(std::string folder, ShardPlan plan);

  uint64_t n_examples() const { return plan_.meta.stored_examples; }
  void add(std::vector<std::byte> block, uint64_t n_examples);

  // Writes the remaining data and syncs all files. Returns a trained dictionary for the caller to store, or an empty
  // vector.
  std::vector<std::byte> finish();

 private:
  using Blocks = std::vector<std::vector<std::byte>>;

  std::vector<std::byte> train();
  void enqueue(std::vector<std::byte> block);
  void compress(Blocks& blocks) const;
  void store(Blocks& blocks);

  std::string folder_;
  ShardPlan plan_;
  Blocks samples_;  // all blocks, until there is a dictionary
  uint64_t sample_bytes_ = 0;
  Blocks open_;  // next task of the pipeline
  uint64_t open_bytes_ = 0;
  std::optional<io::OutputFile> data_;  // from the first block on
  std::vector<uint64_t> offsets_{0};
  OrderedPipeline<Blocks> pipeline_;  // last member: its threads use the others
};

}  // namespace atompack::atlas_shards
