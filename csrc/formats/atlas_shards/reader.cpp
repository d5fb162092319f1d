#include "formats/atlas_shards/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/checked_math.h"
#include "base/error_context.h"
#include "base/excerpt.h"
#include "base/lru_cache.h"
#include "codec/sha256.h"
#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/layout.h"
#include "io/folder.h"
#include "io/open_file.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_shards {
namespace {

constexpr uint64_t kMaxRootMetaBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxShardMetaBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 20;
constexpr unsigned kRemoteThreads = 32;  // that wait for requests to a store
constexpr size_t kMaxSample = 8;         // blocks by which a file is found to be in memory

bool is_shard_number(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::shared_ptr<const codec::ZstdDictionary> read_dictionary(const io::Location& file) {
  return in_file(file.path(), [&] {
    return std::make_shared<const codec::ZstdDictionary>(io::read_whole(file, kMaxDictionaryBytes));
  });
}

}  // namespace

struct Reader::OpenShard {
  std::shared_ptr<const io::OpenFile> data;
  BlockIndex index;
  std::shared_ptr<const codec::ZstdDictionary> dictionary;  // null without one
};

struct Reader::Opened {
  Opened(const ReaderOptions& options, uint64_t max_open_shards)
      : shards(std::max<uint64_t>(max_open_shards, 1)), blocks(options.cache_blocks.value_or(options.cache_bytes)) {}

  LruCache<uint64_t, OpenShard> shards;
  LruCache<std::pair<uint64_t, uint64_t>, ParsedBlock> blocks;
};

Reader::Reader(io::Location root, const ReaderOptions& options)
    : root_(std::move(root)),
      options_(options),
      opened_([options, max_open = root_.is_remote() ? UINT64_MAX : options.max_open_shards] {
        return std::make_unique<Opened>(options, max_open);
      }) {
  const auto meta = io::open_file(root_ / kMetaFile);
  meta_ = in_file(meta->path(), [&] { return parse_root_meta(io::read_whole(*meta, kMaxRootMetaBytes)); });
  root_version_ = meta->version();
  add_shards();
  read_shared_dictionary();
}

Reader::~Reader() = default;

// The names that writers give to this many shards.
std::vector<std::string> usual_names(size_t n_shards) {
  const size_t width = std::to_string(std::max<size_t>(n_shards, 1) - 1).size();
  std::vector<std::string> names;
  for (size_t i = 0; i < n_shards; ++i) {
    const std::string number = std::to_string(i);
    names.push_back(std::string(width - number.size(), '0') + number);
  }
  return names;
}

// In a store, names of files are among them.
std::vector<std::string> Reader::folders() const {
  if (!root_.is_remote()) return io::folders_in(root_.path());
  auto listed = io::list_names(root_);
  if (!listed) return usual_names(meta_.shard_sizes.size());
  std::erase_if(*listed, [](const std::string& name) { return name == kMetaFile || name == kDictionaryFile; });
  return std::move(*listed);
}

// Returns nullopt for what is no shard. A folder whose name is a number must be one.
std::optional<ShardMeta> Reader::read_meta(const std::string& name) const {
  const io::Location meta = root_ / name / kMetaFile;
  if (!is_shard_number(name) && !io::exists(meta)) return std::nullopt;
  try {
    return in_file(meta.path(), [&] { return parse_shard_meta(io::read_whole(meta, kMaxShardMetaBytes)); });
  } catch (const IoError& error) {
    const bool may_be_file = root_.is_remote() && error.code() == ENOENT;
    if (may_be_file && io::exists(root_ / name)) return std::nullopt;
    throw;
  }
}

void Reader::add_shards() {
  const std::vector<std::string> names = folders();
  std::vector<std::optional<ShardMeta>> metas(names.size());
  std::vector<ShardFiles> files(names.size());
  parallel_for_each(names.size(), root_.is_remote() ? kRemoteThreads : 1, [&](size_t i) {
    metas[i] = read_meta(names[i]);
    if (!metas[i]) return;
    ShardFiles opened = check_claims(root_ / names[i], *metas[i]);
    if (root_.is_remote()) files[i] = std::move(opened);
  });
  for (size_t i = 0; i < names.size(); ++i) {
    if (!metas[i]) continue;
    shards_.push_back({names[i], *metas[i], size_});
    files_.push_back(std::move(files[i]));
    const io::Location meta = location_of(shards_.size() - 1, kMetaFile);
    size_ = in_file(meta.path(), [&] { return checked_add(size_, metas[i]->stored_examples, "examples"); });
  }
}

void Reader::read_shared_dictionary() {
  if (meta_.strategy == Strategy::shared_dictionary) {
    shared_dictionary_ = read_dictionary(root_ / kDictionaryFile);
    return;
  }
  for (const Shard& shard : shards_) {
    if (shard.meta.strategy != Strategy::shared_dictionary || shard.meta.stored_examples == 0) continue;
    throw IoError(ENOENT,
                  cat("shared dictionary of shard ", excerpt(shard.name), ": expected compression_strategy 2 in ",
                      kMetaFile, ", got ", static_cast<int>(meta_.strategy)),
                  root());
  }
}

std::string Reader::fingerprint() const {
  std::string versions;
  const auto add = [&](const io::FileVersion& version) {
    versions += cat(version.device, ' ', version.inode, ' ', version.size, ' ', version.seconds, '\n');
  };
  add(root_version_);
  for (size_t i = 0; i < shards_.size(); ++i) {
    versions += cat(shards_[i].name, '\n');
    if (files_[i].index) add(files_[i].index->version());
    if (files_[i].data) add(files_[i].data->version());
  }
  return codec::sha256_hex(as_bytes(versions));
}

std::optional<std::string> Reader::shard_sizes_warning() const {
  const std::vector<uint64_t>& told = meta_.shard_sizes;
  if (told.size() != shards_.size()) {
    return cat(root(), ": shard_sizes: expected ", told.size(), " shards, got ", shards_.size());
  }
  for (size_t i = 0; i < told.size(); ++i) {
    const Shard& shard = shards_[i];
    if (shard.meta.stored_examples == told[i]) continue;
    return cat(root(), ": shard_sizes: expected ", told[i], " examples in shard ", excerpt(shard.name), ", got ",
               shard.meta.stored_examples);
  }
  return std::nullopt;
}

Place Reader::locate(uint64_t example) const {
  if (example >= size_) throw std::out_of_range(cat(root(), ": example ", example, " of ", size_));
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
    error.in_file(location_of(shard, kDataFile).path());
    throw;
  }
}

io::Location Reader::location_of(uint64_t shard, const char* file) const { return root_ / shards_[shard].name / file; }

void Reader::check_block(uint64_t shard, uint64_t number) const {
  if (shard >= shards_.size()) throw std::out_of_range(cat(root(), ": shard ", shard, " of ", shards_.size()));
  const uint64_t n_blocks = shards_[shard].meta.n_blocks();
  if (number >= n_blocks) throw std::out_of_range(cat(root(), ": block ", number, " of ", n_blocks));
}

std::shared_ptr<const Reader::OpenShard> Reader::open_shard(uint64_t shard) const {
  auto& kept = opened_.get().shards;
  if (auto found = kept.find(shard)) return found;
  return kept.keep(shard, make_open_shard(shard), 1);
}

std::shared_ptr<const Reader::OpenShard> Reader::make_open_shard(uint64_t shard) const {
  const uint64_t n_blocks = shards_[shard].meta.n_blocks();
  ShardFiles files = files_[shard];
  if (!files.data) files.data = io::open_file(location_of(shard, kDataFile));
  if (!files.index) files.index = io::open_file(location_of(shard, kIndexFile));
  BlockIndex index = in_file(files.index->path(), [&] {
    return BlockIndex(io::read_whole(*files.index, BlockIndex::max_file_bytes(n_blocks)), n_blocks, files.data->size());
  });
  return std::make_shared<const OpenShard>(OpenShard{std::move(files.data), std::move(index), dictionary_of(shard)});
}

std::shared_ptr<const codec::ZstdDictionary> Reader::dictionary_of(uint64_t shard) const {
  switch (shards_[shard].meta.strategy) {
    case Strategy::shared_dictionary:
      return shared_dictionary_;
    case Strategy::own_dictionary:
      return read_dictionary(location_of(shard, kDictionaryFile));
    default:
      return nullptr;
  }
}

// Returns nullptr if it cannot be opened, which reading its blocks reports.
std::shared_ptr<const Reader::OpenShard> Reader::find_readable(uint64_t shard) const {
  try {
    return open_shard(shard);
  } catch (const DataError&) {
    return nullptr;
  } catch (const IoError&) {
    return nullptr;
  }
}

// Each takes several requests to a store, one after the other.
void Reader::open_together(const BlocksByShard& wanted) const {
  if (!root_.is_remote()) return;
  std::vector<uint64_t> shards;
  for (const auto& [shard, blocks] : wanted) shards.push_back(shard);
  parallel_for_each(shards.size(), kRemoteThreads, [&](size_t i) { static_cast<void>(find_readable(shards[i])); });
}

// Blocks that are too large are left out; reading them reports the error.
std::vector<io::ByteRange> Reader::ranges_of(const OpenShard& shard, std::span<const uint64_t> blocks) const {
  std::vector<io::ByteRange> ranges;
  for (const uint64_t block : blocks) {
    const BlockRange range = shard.index.range(block);
    if (range.size() <= options_.max_block_bytes) ranges.push_back({range.begin, range.size()});
  }
  return ranges;
}

void Reader::announce(std::span<const Place> places) const {
  auto& cached = opened_.get().blocks;
  BlocksByShard wanted;
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const Place& place : places) {
    if (!seen.emplace(place.shard, place.block).second || cached.find({place.shard, place.block})) continue;
    wanted[place.shard].push_back(place.block);
  }
  if (wanted.empty()) return;
  open_together(wanted);
  int64_t window = 0;
  for (const auto& [number, blocks] : wanted) {
    const auto shard = find_readable(number);
    if (!shard) continue;
    const std::vector<io::ByteRange> ranges = ranges_of(*shard, blocks);
    if (ranges.empty()) continue;
    const io::OpenFile& data = *shard->data;
    if (data.window() > 0) data.sample(std::span(ranges).first(std::min(ranges.size(), kMaxSample)));
    if (data.window() > 0) data.announce(ranges);
    window = std::max(window, data.window());
  }
  window_ = window;
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
    if (file->data->is_sample_due()) {
      file->data->sample(std::array{io::ByteRange{range.begin, range.size()}});
      window_ = file->data->window();
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
