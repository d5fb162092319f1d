// Writer of a sharded dataset (FORMAT.md#writing).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/zstd_codec.h"
#include "formats/atlas_shards/meta.h"
#include "formats/atlas_shards/reader.h"
#include "io/file.h"
#include "io/folder.h"
#include "serial/pickle/writer.h"
#include "threads/ordered_pipeline.h"

namespace atompack::atlas_shards {

// Writer of one shard's files (FORMAT.md#writing).
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
  threads::OrderedPipeline<Blocks> pipeline_;  // last member: its threads use the others
};

struct WriterOptions {
  uint64_t shard_size = 0;                // examples; 0: an empty shard, then one example per shard
  uint64_t block_size = 1;                // at least 1
  std::optional<Strategy> strategy = {};  // nullopt: that of the dataset that is appended to, or shared_dictionary
  int level = 3;
  double dictionary_fraction = 0.01;  // fraction of the bytes of a shard
  unsigned n_threads = 1;             // for compression
  io::Existing existing = io::Existing::refuse;
  bool appends = false;  // new shards follow those of the dataset that is replaced
};

// `root` does not exist, or is the old dataset, before close(). For one thread at a time. Throws IoError, after which
// the writer can only be destroyed. In a forked child begin_example() and close() throw LockedError.
class Writer {
 public:
  // IoError (EEXIST) if `root` exists and is not to be replaced, LockedError if another writer is creating or replacing
  // it. To append, it must be a complete dataset: otherwise the errors of Reader, and CorruptFileError if shards are
  // missing.
  Writer(std::string root, const WriterOptions& options);

  const std::string& root() const { return folder_.path(); }
  uint64_t size() const { return size_; }  // without those of shards that exist

  // Returns the writer for the value of the next example; then call end_example(), or drop_example() to undo it. An
  // example that makes a block too large is dropped (UnsupportedFormatError).
  pickle::Writer& begin_example();
  void end_example();
  void drop_example();

  // Adds examples of another dataset, as data: the errors of Reader::block() and of end_example().
  void copy(const Reader& reader, std::span<const uint64_t> examples);

  // Writes the remaining data, and publishes the dataset.
  void close();

 private:
  struct OpenBlock {
    std::vector<std::byte> bytes;
    pickle::Writer pickle{bytes};
    pickle::Writer::Place before_example{};
    uint64_t n_examples = 0;
  };

  void continue_dataset();
  bool shard_is_full() const { return shard_->n_examples() >= options_.shard_size; }
  void begin_shard();
  void end_shard();
  void end_block();
  void name_shards();

  WriterOptions options_;
  io::UnpublishedFolder folder_;
  std::unique_ptr<OpenBlock> block_;  // null between blocks
  std::optional<ShardBuilder> shard_;
  std::shared_ptr<const codec::ZstdEncoder> shared_encoder_;  // set at the end of the first shard
  RootMeta meta_;
  Strategy strategy_;       // of new shards
  std::string shard_name_;  // of the open shard
  uint64_t size_ = 0;
  bool failed_ = false;
};

}  // namespace atompack::atlas_shards
