// Reader of a sharded dataset: the location of each example, and the blocks that hold them (FORMAT.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/meta.h"
#include "formats/atlas_shards/shard_list.h"
#include "io/file.h"
#include "io/open_file.h"
#include "model/example_source.h"
#include "serial/pickle/machine.h"
#include "threads/per_process.h"

namespace atompack::atlas_shards {

struct ReaderOptions {
  uint64_t cache_bytes = uint64_t{256} << 20;  // limit on cached blocks including their parsed values
  std::optional<uint64_t> cache_blocks = {};   // limit on the number of cached blocks instead, whatever their size
  uint64_t max_block_bytes = kMaxBlockBytes;   // stored or decompressed; more is corrupt
  uint64_t max_open_shards = 256;              // of local files: one descriptor each, in addition to those in use
  MissingShards missing = MissingShards::renumber;
  std::optional<uint64_t> n_shards = {};  // only the first ones: those of an earlier generation
};

struct Place {
  uint64_t shard = 0, block = 0, position = 0;
};

// Const methods are thread-safe. In a fork of its process a reader starts with empty caches.
class Reader {
 public:
  // Reads all meta.json files and the shared dictionary. Throws IoError if one of them is missing, CorruptFileError,
  // UnsupportedFormatError.
  explicit Reader(io::Location root, const ReaderOptions& options = {});
  ~Reader();

  const std::string& root() const { return root_.path(); }
  uint64_t size() const { return size_; }
  const std::vector<Shard>& shards() const { return shards_; }
  Strategy strategy() const { return meta_.strategy; }  // of the root: whether there is a shared dictionary

  // Describes differences from the shard sizes in the root's meta.json, which upstream does not check.
  std::optional<std::string> shard_sizes_warning() const;

  // Changes with the files of a dataset in a remote store.
  std::string fingerprint() const;

  // Changes with the metadata of the first `n_shards` local shards, but not when others are appended; nullopt if there
  // are fewer.
  std::optional<std::string> fingerprint_of_first(uint64_t n_shards) const;

  // Throws std::out_of_range.
  Place locate(uint64_t example) const;

  // Returns the examples of a block and caches them. The index of a shard is checked when its first block is read.
  // Throws IoError, CorruptFileError, UnsafePickleError, UnsupportedFormatError; std::out_of_range if there is no such
  // block.
  std::shared_ptr<const ParsedBlock> block(uint64_t shard, uint64_t number) const;

  // Returns the decompressed block, not cached and not parsed. IoError (ENOENT) for a lost shard.
  Block read_block(uint64_t shard, uint64_t number) const;

  // Reading ahead; see ExampleSource. Blocks that are cached are not fetched.
  int64_t window() const { return window_; }
  void announce(std::span<const Place> places) const;

 private:
  struct OpenShard;
  struct Opened;
  using BlocksByShard = std::map<uint64_t, std::vector<uint64_t>>;

  void list_shards();
  void read_shared_dictionary();
  io::Location location_of(uint64_t shard, const char* file) const;
  void check_block(uint64_t shard, uint64_t number) const;

  std::shared_ptr<const OpenShard> open_shard(uint64_t shard) const;
  std::shared_ptr<const OpenShard> make_open_shard(uint64_t shard) const;
  std::shared_ptr<const OpenShard> find_readable(uint64_t shard) const;
  std::shared_ptr<const codec::ZstdDictionary> dictionary_of(uint64_t shard) const;
  void open_together(const BlocksByShard& wanted) const;
  std::vector<io::ByteRange> ranges_of(const OpenShard& shard, std::span<const uint64_t> blocks) const;
  ParsedBlock parse(uint64_t shard, uint64_t number) const;

  io::Location root_;
  ReaderOptions options_;
  RootMeta meta_;
  io::FileVersion root_version_;
  std::vector<Shard> shards_;
  std::vector<ShardFiles> files_;  // of each shard, if they take no descriptors
  uint64_t size_ = 0;
  std::shared_ptr<const codec::ZstdDictionary> shared_dictionary_;
  threads::PerProcess<Opened> opened_;
  mutable std::atomic<int64_t> window_{1};  // of the shards that were announced or sampled last
};

// Examples of a sharded dataset, for collation.
class ShardSource final : public ExampleSource {
 public:
  explicit ShardSource(std::shared_ptr<const Reader> reader) : reader_(std::move(reader)) {}

  int64_t size() const override { return static_cast<int64_t>(reader_->size()); }
  int64_t window() const override { return reader_->window(); }
  void announce(std::span<const int64_t> indices) const override;
  Examples read(std::span<const int64_t> indices) const override;

 private:
  std::shared_ptr<const Reader> reader_;
};

}  // namespace atompack::atlas_shards
