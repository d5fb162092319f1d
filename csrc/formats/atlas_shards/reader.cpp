#include "formats/atlas_shards/reader.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "base/checked_math.h"
#include "base/error_context.h"
#include "base/excerpt.h"
#include "base/lru_cache.h"
#include "formats/atlas_shards/claims.h"
#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/layout.h"
#include "io/folder.h"
#include "io/open_file.h"

namespace atompack::atlas_shards {
namespace {

constexpr uint64_t kMaxRootMetaBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxShardMetaBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 20;

bool is_shard_number(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::shared_ptr<const codec::ZstdDictionary> read_dictionary(const std::string& path) {
  return in_file(
      path, [&] { return std::make_shared<const codec::ZstdDictionary>(io::read_whole(path, kMaxDictionaryBytes)); });
}

}  // namespace

struct Reader::OpenShard {
  std::shared_ptr<const io::OpenFile> data;
  BlockIndex index;
  std::shared_ptr<const codec::ZstdDictionary> dictionary;  // null without one
};

struct Reader::Opened {
  explicit Opened(const ReaderOptions& options)
      : shards(std::max<uint64_t>(options.max_open_shards, 1)),
        blocks(options.cache_blocks.value_or(options.cache_bytes)) {}

  LruCache<uint64_t, OpenShard> shards;
  LruCache<std::pair<uint64_t, uint64_t>, ParsedBlock> blocks;
};

Reader::Reader(std::string root, const ReaderOptions& options)
    : root_(std::move(root)), options_(options), opened_([options] { return std::make_unique<Opened>(options); }) {
  const std::string path = cat(root_, '/', kMetaFile);
  meta_ = in_file(path, [&] { return parse_root_meta(io::read_whole(path, kMaxRootMetaBytes)); });
  for (const std::string& folder : io::folders_in(root_)) add_shard(folder);
  read_shared_dictionary();
}

Reader::~Reader() = default;

void Reader::add_shard(const std::string& name) {
  const std::string path = cat(root_, '/', name, '/', kMetaFile);
  if (!is_shard_number(name) && !io::exists(path)) return;
  Shard shard{name, in_file(path, [&] { return parse_shard_meta(io::read_whole(path, kMaxShardMetaBytes)); }), size_};
  size_ = in_file(path, [&] { return checked_add(size_, shard.meta.stored_examples, "examples"); });
  check_claims(cat(root_, '/', name), shard.meta);
  shards_.push_back(std::move(shard));
}

void Reader::read_shared_dictionary() {
  if (meta_.strategy == Strategy::shared_dictionary) {
    shared_dictionary_ = read_dictionary(cat(root_, '/', kDictionaryFile));
    return;
  }
  for (const Shard& shard : shards_) {
    if (shard.meta.strategy != Strategy::shared_dictionary || shard.meta.stored_examples == 0) continue;
    throw IoError(ENOENT,
                  cat("shared dictionary of shard ", excerpt(shard.name), ": expected compression_strategy 2 in ",
                      kMetaFile, ", got ", static_cast<int>(meta_.strategy)),
                  root_);
  }
}

std::optional<std::string> Reader::shard_sizes_warning() const {
  const std::vector<uint64_t>& told = meta_.shard_sizes;
  if (told.size() != shards_.size()) {
    return cat(root_, ": shard_sizes: expected ", told.size(), " shards, got ", shards_.size());
  }
  for (size_t i = 0; i < told.size(); ++i) {
    const Shard& shard = shards_[i];
    if (shard.meta.stored_examples == told[i]) continue;
    return cat(root_, ": shard_sizes: expected ", told[i], " examples in shard ", excerpt(shard.name), ", got ",
               shard.meta.stored_examples);
  }
  return std::nullopt;
}

Place Reader::locate(uint64_t example) const {
  if (example >= size_) throw std::out_of_range(cat(root_, ": example ", example, " of ", size_));
  // Empty shards begin where the next one does, so the last shard that begins here has the example.
  const auto behind = std::ranges::upper_bound(shards_, example, {}, &Shard::first_example);
  const auto shard = static_cast<uint64_t>(behind - shards_.begin() - 1);
  const uint64_t inside = example - shards_[shard].first_example;
  const uint64_t block_size = shards_[shard].meta.block_size;
  return {shard, inside / block_size, inside % block_size};
}

std::shared_ptr<const ParsedBlock> Reader::block(uint64_t shard, uint64_t number) const {
  check_block(shard, number);
  auto& blocks = opened_.get().blocks;
  if (auto kept = blocks.find({shard, number})) return kept;
  auto made = std::make_shared<const ParsedBlock>(parse(shard, number));
  const uint64_t cost = options_.cache_blocks ? 1 : made->bytes();
  return blocks.keep({shard, number}, std::move(made), cost);
}

ParsedBlock Reader::parse(uint64_t shard, uint64_t number) const {
  thread_local pickle::Machine machine;
  const ShardMeta& meta = shards_[shard].meta;
  Block block = read_block(shard, number);
  try {
    return {std::move(block), meta.examples_in(number), machine};
  } catch (DataError& error) {
    const bool is_bare = meta.strategy == Strategy::bare;
    error.at_offset(0).shift_offset(0, cat(" of block ", number, is_bare ? "" : ", decompressed"));
    error.in_file(path_in(shard, kDataFile));
    throw;
  }
}

std::string Reader::path_in(uint64_t shard, const char* file) const {
  return cat(root_, '/', shards_[shard].name, '/', file);
}

void Reader::check_block(uint64_t shard, uint64_t number) const {
  if (shard >= shards_.size()) throw std::out_of_range(cat(root_, ": shard ", shard, " of ", shards_.size()));
  const uint64_t n_blocks = shards_[shard].meta.n_blocks();
  if (number >= n_blocks) throw std::out_of_range(cat(root_, ": block ", number, " of ", n_blocks));
}

std::shared_ptr<const Reader::OpenShard> Reader::open_shard(uint64_t shard) const {
  auto& kept = opened_.get().shards;
  if (auto found = kept.find(shard)) return found;
  return kept.keep(shard, make_open_shard(shard), 1);
}

std::shared_ptr<const Reader::OpenShard> Reader::make_open_shard(uint64_t shard) const {
  const std::string data_path = path_in(shard, kDataFile), index_path = path_in(shard, kIndexFile);
  const uint64_t n_blocks = shards_[shard].meta.n_blocks();
  auto data = io::open_file(data_path);
  const uint64_t data_bytes = data->size();
  BlockIndex index = in_file(index_path, [&] {
    return BlockIndex(io::read_whole(index_path, BlockIndex::max_file_bytes(n_blocks)), n_blocks, data_bytes);
  });
  return std::make_shared<const OpenShard>(OpenShard{std::move(data), std::move(index), dictionary_of(shard)});
}

std::shared_ptr<const codec::ZstdDictionary> Reader::dictionary_of(uint64_t shard) const {
  switch (shards_[shard].meta.strategy) {
    case Strategy::shared_dictionary:
      return shared_dictionary_;
    case Strategy::own_dictionary:
      return read_dictionary(path_in(shard, kDictionaryFile));
    default:
      return nullptr;
  }
}

Block Reader::read_block(uint64_t shard, uint64_t number) const {
  check_block(shard, number);
  const auto file = open_shard(shard);
  const BlockRange range = file->index.range(number);
  const uint64_t max_bytes = options_.max_block_bytes;
  return in_file(file->data->path(), [&] {
    const std::string what = cat("block ", number);
    if (range.size() > max_bytes) {
      throw CorruptFileError(cat(what, ": expected at most ", max_bytes, " bytes, got ", range.size()), range.begin);
    }
    Block stored(range.size());
    const size_t got = file->data->read_at(range.begin, stored.writable());
    if (got != range.size()) {
      throw CorruptFileError(cat(what, ": expected ", range.size(), " bytes, got ", got), range.begin);
    }
    if (shards_[shard].meta.strategy == Strategy::bare) return stored;
    try {
      return decompress_block(stored.bytes(), file->dictionary.get(), max_bytes);
    } catch (DataError& error) {
      error.at_offset(0).shift_offset(range.begin, cat(", in ", what));
      throw;
    }
  });
}

}  // namespace atompack::atlas_shards
