#include "formats/atlas_shards/writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "codec/codec.h"
#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/shard_list.h"
#include "io/open_file.h"
#include "threads/process.h"

namespace atompack::atlas_shards {
namespace {

constexpr uint64_t kTaskBytes = uint64_t{128} << 10;  // large enough to justify waking a thread
constexpr uint64_t kQueueBytes = uint64_t{4} << 20;
constexpr size_t kMinBlocks = 7;  // minimum for training a dictionary
constexpr uint64_t kMinDictionaryBytes = 1024;
// Training takes several passes and at most 4 GiB; beyond this many bytes per byte of the dictionary, more samples
// hardly improve it.
constexpr uint64_t kSamplesPerByte = 32;
constexpr uint64_t kMinSampleBytes = uint64_t{1} << 20, kMaxSampleBytes = uint64_t{64} << 20;

// Evenly spaced blocks; only the front of large ones.
std::vector<Bytes> samples_of(const std::vector<std::vector<std::byte>>& blocks, uint64_t total_bytes,
                              uint64_t dictionary_bytes) {
  const uint64_t enough = std::clamp(kSamplesPerByte * dictionary_bytes, kMinSampleBytes, kMaxSampleBytes);
  const uint64_t average = total_bytes / blocks.size() + 1;
  const size_t n = std::min<size_t>(blocks.size(), std::max<uint64_t>(enough / average, kMinBlocks));
  std::vector<Bytes> samples(n);
  for (size_t i = 0; i < n; ++i) {
    const Bytes block = blocks[i * blocks.size() / n];
    samples[i] = block.first(std::min<size_t>(block.size(), enough / n));
  }
  return samples;
}

const WriterOptions& check_options(const WriterOptions& options) {
  codec::check_level(codec::Codec::zstd, options.level);
  return options;
}

}  // namespace

ShardBuilder::ShardBuilder(std::string folder, ShardPlan plan)
    : folder_(std::move(folder)),
      plan_(std::move(plan)),
      pipeline_(
          plan_.n_threads, [this](Blocks& blocks) { compress(blocks); }, [this](Blocks& blocks) { store(blocks); },
          kQueueBytes) {
  plan_.meta.stored_examples = 0;
}

void ShardBuilder::add(std::vector<std::byte> block, uint64_t n_examples) {
  plan_.meta.stored_examples += n_examples;
  if (!plan_.trains) return enqueue(std::move(block));
  sample_bytes_ += block.size();
  samples_.push_back(std::move(block));
}

std::vector<std::byte> ShardBuilder::finish() {
  std::vector<std::byte> dictionary;
  if (plan_.trains) dictionary = train();
  for (std::vector<std::byte>& block : samples_) enqueue(std::move(block));
  compress(open_);  // on this thread: a small shard needs no other
  pipeline_.drain();
  if (!open_.empty()) store(open_);
  if (data_) data_->sync();
  io::write_new(folder_ + '/' + kIndexFile, encode_index(offsets_));
  io::write_new(folder_ + '/' + kMetaFile, as_bytes(text_of(plan_.meta)));
  return dictionary;
}

std::vector<std::byte> ShardBuilder::train() {
  std::vector<std::byte> dictionary;
  if (samples_.size() >= kMinBlocks) {
    const double share = std::floor(plan_.meta.dictionary_fraction * static_cast<double>(sample_bytes_)) + 1;
    const auto max_bytes = std::max(kMinDictionaryBytes, static_cast<uint64_t>(share));
    dictionary = codec::train_zstd_dictionary(samples_of(samples_, sample_bytes_, max_bytes), max_bytes);
  }
  if (dictionary.empty()) plan_.meta.strategy = Strategy::zstd;
  plan_.encoder = std::make_shared<const codec::ZstdEncoder>(static_cast<int>(plan_.meta.level), dictionary);
  return dictionary;
}

void ShardBuilder::enqueue(std::vector<std::byte> block) {
  open_bytes_ += block.size();
  open_.push_back(std::move(block));
  if (open_bytes_ < kTaskBytes) return;
  pipeline_.push(open_, open_bytes_);
  open_bytes_ = 0;
}

void ShardBuilder::compress(Blocks& blocks) const {
  if (!plan_.encoder) return;
  for (std::vector<std::byte>& block : blocks) block = plan_.encoder->compress(block);
}

void ShardBuilder::store(Blocks& blocks) {
  if (!data_) data_.emplace(folder_ + '/' + kDataFile);
  for (const std::vector<std::byte>& block : blocks) {
    data_->append(block);
    offsets_.push_back(data_->size());
  }
  blocks.clear();
}

Writer::Writer(std::string root, const WriterOptions& options)
    : options_(check_options(options)),
      folder_(std::move(root), options.existing),
      strategy_(options_.strategy.value_or(Strategy::shared_dictionary)),
      shard_name_("0") {
  if (folder_.replaces() && !io::exists(io::Location(this->root()) / kMetaFile)) {
    throw IoError(EEXIST, "expected a folder of shards, got something else", this->root());
  }
  meta_.strategy = strategy_;
  options_.appends = options_.appends && folder_.replaces();
  if (options_.appends) continue_dataset();
  begin_shard();
}

// Names of shards that exist stay: readers open files by them.
void Writer::continue_dataset() {
  const Reader existing(root());
  if (const auto warning = existing.shard_sizes_warning()) throw CorruptFileError(*warning);
  meta_ = {.shard_sizes = {}, .strategy = existing.strategy()};
  for (const Shard& shard : existing.shards()) meta_.shard_sizes.push_back(shard.meta.stored_examples);
  if (!options_.strategy) strategy_ = meta_.strategy;
  if (!existing.shards().empty()) shard_name_ = successor_of(existing.shards().back().name);
  if (strategy_ != Strategy::shared_dictionary || meta_.strategy != strategy_) return;
  const auto dictionary = io::read_whole(io::Location(root()) / kDictionaryFile, kMaxDictionaryBytes);
  shared_encoder_ = std::make_shared<const codec::ZstdEncoder>(options_.level, dictionary);
}

void Writer::begin_shard() {
  folder_.make_folder(shard_name_);
  ShardPlan plan{.meta = {.block_size = options_.block_size,
                          .stored_examples = 0,
                          .strategy = strategy_,
                          .level = options_.level,
                          .dictionary_fraction = options_.dictionary_fraction},
                 .encoder = shared_encoder_,
                 .n_threads = options_.n_threads};
  const bool shares = strategy_ == Strategy::shared_dictionary;
  plan.trains = strategy_ == Strategy::own_dictionary || (shares && !shared_encoder_);
  if (strategy_ == Strategy::zstd) {
    plan.encoder = std::make_shared<const codec::ZstdEncoder>(options_.level, Bytes{});
  }
  shard_.emplace(folder_.inside(shard_name_), std::move(plan));
}

pickle::Writer& Writer::begin_example() {
  threads::check_writer_of(folder_.owner(), root());
  if (!block_) {
    block_ = std::make_unique<OpenBlock>();
    block_->pickle.begin_list();
  }
  block_->before_example = block_->pickle.place();
  return block_->pickle;
}

void Writer::drop_example() { block_->pickle.return_to(block_->before_example); }

// A block is opened before its shard is known to be full, so its first example may start a new shard.
void Writer::end_example() {
  if (const uint64_t bytes = block_->bytes.size(); bytes > kMaxBlockBytes) {
    drop_example();
    throw UnsupportedFormatError(cat("block: expected at most ", kMaxBlockBytes, " bytes, got ", bytes))
        .in_file(root());
  }
  failed_ = true;  // reset if all of this succeeds
  if (block_->n_examples == 0 && shard_is_full()) {
    end_shard();
    begin_shard();
  }
  ++size_;
  ++block_->n_examples;
  const uint64_t in_shard = shard_->n_examples() + block_->n_examples;
  if (block_->n_examples == options_.block_size || in_shard >= options_.shard_size) end_block();
  failed_ = false;
}

void Writer::copy(const Reader& reader, std::span<const uint64_t> examples) {
  for (const uint64_t number : examples) {
    const Place place = reader.locate(number);
    const auto block = reader.block(place.shard, place.block);
    pickle::Writer& pickle = begin_example();
    try {
      pickle.value(block->example(place.position));
    } catch (...) {
      drop_example();
      throw;
    }
    end_example();
  }
}

void Writer::end_block() {
  block_->pickle.end_list();
  block_->pickle.finish();
  shard_->add(std::move(block_->bytes), block_->n_examples);
  block_.reset();
}

void Writer::end_shard() {
  const bool shares = strategy_ == Strategy::shared_dictionary;
  const std::vector<std::byte> dictionary = shard_->finish();
  if (!dictionary.empty()) {
    const std::string place = shares ? kDictionaryFile : shard_name_ + '/' + kDictionaryFile;
    io::write_new(folder_.inside(place), dictionary);
    if (shares) shared_encoder_ = std::make_shared<const codec::ZstdEncoder>(options_.level, dictionary);
    if (shares) meta_.strategy = strategy_;
  } else if (shares && !shared_encoder_) {
    strategy_ = Strategy::zstd;  // the first shard was too small to train a dictionary: there will be none
    if (!options_.appends) meta_.strategy = strategy_;
  }
  meta_.shard_sizes.push_back(shard_->n_examples());
  shard_name_ = options_.appends ? successor_of(shard_name_) : std::to_string(meta_.shard_sizes.size());
  shard_.reset();
}

void Writer::close() {
  threads::check_writer_of(folder_.owner(), root());
  if (failed_) throw IoError(EIO, "an earlier example could not be written", root());
  if (options_.appends && size_ == 0) return;  // nothing changes
  failed_ = true;
  if (block_ && block_->n_examples > 0) end_block();
  end_shard();
  io::write_new(folder_.inside(kMetaFile), as_bytes(text_of(meta_)));
  options_.appends ? folder_.link_replaced_files() : name_shards();
  folder_.publish();
}

// With as many digits as the last shard needs.
void Writer::name_shards() {
  const size_t n = meta_.shard_sizes.size(), width = usual_width(n);
  for (size_t i = 0; i < n; ++i) {
    const std::string name = std::to_string(i);
    if (name.size() < width) folder_.rename(name, std::string(width - name.size(), '0') + name);
  }
}

}  // namespace atompack::atlas_shards
