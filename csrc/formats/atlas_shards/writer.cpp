#include "formats/atlas_shards/writer.h"

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "codec/level.h"
#include "formats/atlas_shards/block.h"
#include "formats/atlas_shards/layout.h"
#include "threads/process.h"

namespace atompack::atlas_shards {
namespace {

const WriterOptions& check_options(const WriterOptions& options) {
  codec::check_level(codec::Codec::zstd, options.level);
  return options;
}

}  // namespace

Writer::Writer(std::string root, const WriterOptions& options)
    : options_(check_options(options)), folder_(std::move(root)) {
  meta_.strategy = options_.strategy;
  begin_shard();
}

void Writer::begin_shard() {
  const std::string name = std::to_string(meta_.shard_sizes.size());
  folder_.make_folder(name);
  ShardPlan plan{.meta = {.block_size = options_.block_size,
                          .stored_examples = 0,
                          .strategy = meta_.strategy,
                          .level = options_.level,
                          .dictionary_fraction = options_.dictionary_fraction},
                 .encoder = shared_encoder_,
                 .n_threads = options_.n_threads};
  const bool shares = meta_.strategy == Strategy::shared_dictionary;
  plan.trains = meta_.strategy == Strategy::own_dictionary || (shares && !shared_encoder_);
  if (meta_.strategy == Strategy::zstd) {
    plan.encoder = std::make_shared<const codec::ZstdEncoder>(options_.level, Bytes{});
  }
  shard_.emplace(folder_.inside(name), std::move(plan));
}

pickle::Writer& Writer::begin_example() {
  io::check_writer_of(folder_.owner(), root());
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

void Writer::end_block() {
  block_->pickle.end_list();
  block_->pickle.finish();
  shard_->add(std::move(block_->bytes), block_->n_examples);
  block_.reset();
}

void Writer::end_shard() {
  const bool shares = meta_.strategy == Strategy::shared_dictionary;
  const std::vector<std::byte> dictionary = shard_->finish();
  const std::string name = std::to_string(meta_.shard_sizes.size());
  if (!dictionary.empty()) {
    const std::string place = shares ? kDictionaryFile : name + '/' + kDictionaryFile;
    io::write_new(folder_.inside(place), dictionary);
    if (shares) shared_encoder_ = std::make_shared<const codec::ZstdEncoder>(options_.level, dictionary);
  } else if (shares && !shared_encoder_) {
    meta_.strategy = Strategy::zstd;  // the first shard was too small to train a dictionary: there will be none
  }
  meta_.shard_sizes.push_back(shard_->n_examples());
  shard_.reset();
}

void Writer::close() {
  io::check_writer_of(folder_.owner(), root());
  if (failed_) throw IoError(EIO, "an earlier example could not be written", root());
  failed_ = true;
  if (block_ && block_->n_examples > 0) end_block();
  end_shard();
  io::write_new(folder_.inside(kMetaFile), as_bytes(text_of(meta_)));
  name_shards();
  folder_.publish();
}

// With as many digits as the last shard needs.
void Writer::name_shards() {
  const size_t n = meta_.shard_sizes.size(), width = std::to_string(n - 1).size();
  for (size_t i = 0; i < n; ++i) {
    const std::string name = std::to_string(i);
    if (name.size() < width) folder_.rename(name, std::string(width - name.size(), '0') + name);
  }
}

}  // namespace atompack::atlas_shards
