#include "formats/atlas_shards/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/lru_cache.h"
#include "codec/checksums.h"
#include "io/open_file.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_shards {
namespace {

constexpr uint64_t kMaxRootMetaBytes = uint64_t{16} << 20;
constexpr size_t kMaxSample = 8;  // blocks by which a file is found to be in memory

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
  list_shards();
  read_shared_dictionary();
}

Reader::~Reader() = default;

void Reader::list_shards() {
  ShardList list = atlas_shards::list_shards(root_, meta_, options_.missing);
  const uint64_t n_shards = options_.n_shards.value_or(list.shards.size());
  if (n_shards < list.shards.size()) {
    list.n_examples = list.shards[n_shards].first_example;
    list.shards.resize(n_shards);
    list.files.resize(n_shards);
  }
  shards_ = std::move(list.shards);
  files_ = std::move(list.files);
  size_ = list.n_examples;
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

// Appending changes the time of the last change of the files, to which new links lead, but not that of the last write.
std::optional<std::string> Reader::fingerprint_of_first(uint64_t n_shards) const {
  if (n_shards > shards_.size()) return std::nullopt;
  std::string versions;
  for (const Shard& shard : std::span(shards_).first(n_shards)) {
    std::error_code lost;
    const auto written = std::filesystem::last_write_time((root_ / shard.name / kMetaFile).path(), lost);
    versions += cat(shard.name, '\n', shard.version.inode, ' ', shard.version.size, ' ',
                    lost ? 0 : written.time_since_epoch().count(), '\n');
  }
  return codec::sha256_hex(as_bytes(versions));
}

std::optional<std::string> Reader::shard_sizes_warning() const {
  const auto difference = difference_of(shards_, meta_);
  return difference ? std::optional(cat(root(), ": ", *difference)) : std::nullopt;
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
  const auto add_place = [&](DataError& error) {
    const bool is_bare = meta.strategy == Strategy::bare;
    error.at_offset(0).shift_offset(0, cat(" of block ", number, is_bare ? "" : ", decompressed"));
    error.in_file(location_of(shard, kDataFile).path());
  };
  return with_context(add_place, [&] { return ParsedBlock(std::move(block), meta.examples_in(number), machine); });
}

io::Location Reader::location_of(uint64_t shard, const char* file) const { return root_ / shards_[shard].name / file; }

void Reader::check_block(uint64_t shard, uint64_t number) const {
  if (shard >= shards_.size()) throw std::out_of_range(cat(root(), ": shard ", shard, " of ", shards_.size()));
  const uint64_t n_blocks = shards_[shard].meta.n_blocks();
  if (number >= n_blocks) throw std::out_of_range(cat(root(), ": block ", number, " of ", n_blocks));
  const Shard& found = shards_[shard];
  if (!found.is_lost) return;
  const uint64_t last = found.first_example + found.meta.stored_examples - 1;
  throw IoError(ENOENT, cat("the shard of examples ", found.first_example, " to ", last, " is lost"),
                (root_ / found.name).path());
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
  if (shards_[shard].is_lost) return nullptr;
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
  threads::parallel_for_each(shards.size(), kRemoteThreads,
                             [&](size_t i) { static_cast<void>(find_readable(shards[i])); });
}

// Blocks that are too large are omitted; reading them reports the error.
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
    return with_context([&](DataError& error) { error.at_offset(0).shift_offset(range.begin, cat(", in ", what)); },
                        [&] { return decompress_block(stored.bytes(), file->dictionary.get(), max_bytes); });
  });
}

void ShardSource::announce(std::span<const int64_t> indices) const {
  std::vector<Place> places;
  places.reserve(indices.size());
  for (const int64_t index : indices) places.push_back(reader_->locate(static_cast<uint64_t>(index)));
  reader_->announce(places);
}

Examples ShardSource::read(std::span<const int64_t> indices) const {
  Examples examples;
  examples.values.reserve(indices.size());
  // A block is looked up once for all of its examples, so that a batch holds each block once even if the cache drops
  // it.
  std::map<std::pair<uint64_t, uint64_t>, const ParsedBlock*> held;
  for (const int64_t index : indices) {
    const Place place = reader_->locate(static_cast<uint64_t>(index));
    const ParsedBlock*& block = held[{place.shard, place.block}];
    if (block == nullptr) {
      auto read = reader_->block(place.shard, place.block);
      block = read.get();
      examples.owners.push_back(std::move(read));
    }
    examples.values.push_back(block->example(place.position));
  }
  return examples;
}

}  // namespace atompack::atlas_shards
