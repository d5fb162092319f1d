// Makes a data set of shards (FORMAT.md#writing).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/atlas_shards/meta.h"
#include "formats/atlas_shards/shard_builder.h"
#include "io/unpublished_folder.h"
#include "serial/pickle/writer.h"

namespace atompack::atlas_shards {

struct WriterOptions {
  uint64_t shard_size = 0;  // examples; of 0 comes an empty shard, then one example a shard
  uint64_t block_size = 1;  // at least 1
  Strategy strategy = Strategy::shared_dictionary;
  int level = 3;
  double dictionary_fraction = 0.01;  // of the bytes of a shard
  unsigned n_threads = 1;             // that compress
};

// Nothing is at `root` before close(). For one thread at a time. Throws IoError; after one, only destroying it helps.
// In a forked child begin_example() and close() throw LockedError.
class Writer {
 public:
  // IoError (EEXIST) if something is there, LockedError if another writer is making it.
  Writer(std::string root, const WriterOptions& options);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  const std::string& root() const { return folder_.path(); }
  uint64_t size() const { return size_; }

  // Where the value of the next example goes; then end_example(), or drop_example() as if nothing had been. An example
  // that makes a block too large is dropped (UnsupportedFormatError).
  pickle::Writer& begin_example();
  void end_example();
  void drop_example();

  // Writes what is left, and gives the data set its name.
  void close();

 private:
  struct OpenBlock {
    std::vector<std::byte> bytes;
    pickle::Writer pickle{bytes};
    pickle::Writer::Place before_example{};
    uint64_t n_examples = 0;
  };

  bool shard_is_full() const { return shard_->n_examples() >= options_.shard_size; }
  void begin_shard();
  void end_shard();
  void end_block();
  void name_shards();

  WriterOptions options_;
  io::UnpublishedFolder folder_;
  std::unique_ptr<OpenBlock> block_;  // null between blocks
  std::optional<ShardBuilder> shard_;
  std::shared_ptr<const codec::ZstdEncoder> shared_encoder_;  // from the end of the first shard on
  RootMeta meta_;
  uint64_t size_ = 0;
  bool failed_ = false;
};

}  // namespace atompack::atlas_shards
