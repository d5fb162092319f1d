#include "formats/atlas_shards/shard_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/layout.h"

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

}  // namespace atompack::atlas_shards
