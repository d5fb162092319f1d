#include "formats/atlas_shards/shard_list.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/ascii.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/excerpt.h"
#include "formats/atlas_shards/index.h"
#include "io/folder.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_shards {

std::string successor_of(const std::string& name) {
  std::string next = name;
  size_t n_digits = 0;
  for (; n_digits < next.size() && is_digit(next[next.size() - 1 - n_digits]); ++n_digits) {
    char& digit = next[next.size() - 1 - n_digits];
    if (digit != '9') {
      ++digit;
      return next;
    }
    digit = '0';
  }
  // No number of as many digits is greater. Twice as many digits keep names short, however many shards follow.
  return name + std::string(std::max<size_t>(n_digits, 1), '0');
}

std::vector<std::string> numbered_names(uint64_t n, size_t width) {
  std::vector<std::string> names;
  std::string name(width, '0');
  for (uint64_t i = 0; i < n; ++i) {
    names.push_back(name);
    name = successor_of(name);
  }
  return names;
}

size_t usual_width(uint64_t n) { return std::to_string(std::max<uint64_t>(n, 1) - 1).size(); }

std::optional<std::vector<std::string>> original_names(uint64_t n, std::span<const std::string> present) {
  for (size_t width = usual_width(n); width > 0; --width) {
    std::vector<std::string> names = numbered_names(n, width);
    if (std::ranges::includes(names, present)) return names;
  }
  return std::nullopt;
}

namespace {

void check_index_size(const io::OpenFile& index, uint64_t n_blocks) {
  constexpr uint64_t kFront = 1 << 16;
  std::vector<std::byte> front(std::min(index.size(), kFront));
  front.resize(index.read_at(0, front));
  const NpyHeader header = parse_npy_header(front);
  const uint64_t expected = checked_add(n_blocks, 1, "index offsets");
  if (header.count != expected) throw_corrupt("index: expected ", expected, " offsets, got ", header.count);
  const uint64_t bytes = checked_mul(header.count, header.item_bytes, "index bytes");
  if (const uint64_t size = index.size(); checked_add(header.data_begin, bytes, "index bytes") > size) {
    throw_corrupt("index: expected ", bytes, " bytes at ", header.data_begin, ", got a file of ", size);
  }
}

uint64_t max_examples(const io::OpenFile& data, const BlockRange& range, Strategy strategy) {
  if (strategy == Strategy::bare) return range.size();
  if (range.size() > kMaxBlockBytes) return kMaxBlockBytes;  // refused when it is read
  std::vector<std::byte> stored(range.size());
  stored.resize(data.read_at(range.begin, stored));
  const codec::ZstdFrame frame = codec::zstd_first_frame(stored);
  return std::min({frame.content_bytes.value_or(0), frame.bound, kMaxBlockBytes});
}

void check_blocks(const io::OpenFile& index_file, const io::OpenFile& data, const ShardMeta& meta) {
  const BlockIndex index = in_file(index_file.path(), [&] {
    return BlockIndex(io::read_whole(index_file, BlockIndex::max_file_bytes(meta.n_blocks())), meta.n_blocks(),
                      data.size());
  });
  for (uint64_t block = 0; block < meta.n_blocks(); ++block) {
    const uint64_t max_count = max_examples(data, index.range(block), meta.strategy);
    if (const uint64_t claimed = meta.examples_in(block); claimed > max_count) {
      throw_corrupt("block ", block, ": expected at most ", max_count, " examples, got ", claimed);
    }
  }
}

}  // namespace

ShardFiles check_claims(const io::Location& folder, const ShardMeta& meta) {
  ShardFiles files;
  if (meta.stored_examples == 0) return files;
  try {
    files.index = io::open_file(folder / kIndexFile);
    in_file(files.index->path(), [&] { check_index_size(*files.index, meta.n_blocks()); });
    files.data = io::open_file(folder / kDataFile);
    if (meta.stored_examples <= files.data->size()) return files;
    in_file(files.data->path(), [&] { check_blocks(*files.index, *files.data, meta); });
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
  }
  return files;
}

namespace {

constexpr uint64_t kMaxShardMetaBytes = uint64_t{64} << 10;
// No stored bytes justify the examples of lost shards, which `is_present` lists. There may be this many of them, or
// this many for each other example.
constexpr uint64_t kMaxLostExamples = uint64_t{1} << 28;
constexpr uint64_t kMaxLostShare = 64;

struct Found {
  Shard shard{};
  ShardFiles files{};
  bool has_meta = false;
};

bool is_shard_number(const std::string& name) { return std::ranges::all_of(name, is_digit); }

class Lister {
 public:
  Lister(const io::Location& root, const RootMeta& meta, MissingShards missing)
      : root_(root), meta_(meta), missing_(missing) {}

  ShardList list() {
    const std::vector<std::string> names = folders();
    std::vector<std::optional<Found>> found(names.size());
    threads::parallel_for_each(names.size(), root_.is_remote() ? kRemoteThreads : 1,
                               [&](size_t i) { found[i] = look_at(names[i]); });
    std::vector<Found> shards;
    for (std::optional<Found>& one : found) {
      if (one) shards.push_back(std::move(*one));
    }
    if (missing_ != MissingShards::renumber) shards = with_lost_shards(std::move(shards));
    return number(std::move(shards));
  }

 private:
  // Names of files are among them if the root is remote.
  std::vector<std::string> folders() const {
    auto listed = root_.is_remote() ? io::list_names(root_) : std::optional(io::folders_in(root_.path()));
    if (listed) {
      std::erase_if(*listed, [](const std::string& name) {
        return name.starts_with('.') || name == kMetaFile || name == kDictionaryFile;
      });
      return std::move(*listed);
    }
    const uint64_t n = meta_.shard_sizes.size();
    // Where shards were appended, the first names have fewer digits than the number of shards now.
    for (size_t width = usual_width(n); width > 1; --width) {
      if (io::exists(root_ / std::string(width, '0') / kMetaFile)) return numbered_names(n, width);
    }
    return numbered_names(n, 1);
  }

  std::optional<Found> look_at(const std::string& name) const {
    std::optional<Found> found = read_meta(name);
    if (!found || !found->has_meta) return found;
    found->files = check_claims(root_ / name, found->shard.meta);
    if (missing_ != MissingShards::renumber) check_files(*found);
    if (!root_.is_remote()) found->files = {};
    return found;
  }

  // Returns nullopt for anything that is not a shard. A folder whose name is a number must be one.
  std::optional<Found> read_meta(const std::string& name) const {
    const io::Location meta = root_ / name / kMetaFile;
    if (!is_shard_number(name) && !io::exists(meta)) return std::nullopt;
    try {
      const auto file = io::open_file(meta);
      const auto parsed =
          in_file(meta.path(), [&] { return parse_shard_meta(io::read_whole(*file, kMaxShardMetaBytes)); });
      return Found{.shard = {.name = name, .meta = parsed, .version = file->version()}, .files = {}, .has_meta = true};
    } catch (const IoError& error) {
      if (error.code() != ENOENT) throw;
      if (root_.is_remote() && io::exists(root_ / name)) return std::nullopt;  // a file
      if (missing_ != MissingShards::keep) throw;
      return Found{.shard = {.name = name, .is_lost = true}};
    }
  }

  void check_files(Found& found) const {
    const ShardMeta& meta = found.shard.meta;
    if (meta.stored_examples == 0) return;
    const io::Location folder = root_ / found.shard.name;
    const bool needs_dictionary = meta.strategy == Strategy::own_dictionary;
    const char* const lacks = !found.files.index                                          ? kIndexFile
                              : !found.files.data                                         ? kDataFile
                              : needs_dictionary && !io::exists(folder / kDictionaryFile) ? kDictionaryFile
                                                                                          : nullptr;
    if (lacks == nullptr) return;
    if (missing_ == MissingShards::error)
      throw IoError(ENOENT, "the file of a shard is missing", (folder / lacks).path());
    found.shard.is_lost = true;
  }

  // Compares the shards with the sizes in the root's meta.json, and adds those that it lists and that do not exist.
  std::vector<Found> with_lost_shards(std::vector<Found> found) const {
    const std::vector<uint64_t>& sizes = meta_.shard_sizes;
    std::vector<std::string> present;
    for (const Found& one : found) present.push_back(one.shard.name);
    if (found.size() < sizes.size() && missing_ == MissingShards::error) {
      throw IoError(ENOENT, cat("shard_sizes: expected ", sizes.size(), " shards, got ", found.size()), root_.path());
    }
    const auto names = found.size() == sizes.size() ? present : original_names(sizes.size(), present);
    if (!names) {
      throw CorruptFileError(cat("shard_sizes: expected ", sizes.size(),
                                 " shards with the names that writers give, got ", found.size(), " with others"))
          .in_file(root_.path());
    }
    std::vector<Found> all;
    auto next = found.begin();
    for (size_t i = 0; i < names->size(); ++i) {
      const bool exists = next != found.end() && next->shard.name == (*names)[i];
      all.push_back(exists && next->has_meta ? std::move(*next) : lost_shard((*names)[i], sizes[i]));
      if (exists) ++next;
    }
    return all;
  }

  Found lost_shard(const std::string& name, uint64_t n_examples) const {
    return {.shard = {.name = name,
                      .meta = {.block_size = std::max<uint64_t>(n_examples, 1), .stored_examples = n_examples},
                      .is_lost = true}};
  }

  ShardList number(std::vector<Found> found) const {
    ShardList list;
    for (Found& one : found) {
      one.shard.first_example = list.n_examples;
      const io::Location meta = root_ / one.shard.name / kMetaFile;
      list.n_examples = in_file(
          meta.path(), [&] { return checked_add(list.n_examples, one.shard.meta.stored_examples, "examples"); });
      list.shards.push_back(std::move(one.shard));
      list.files.push_back(std::move(one.files));
    }
    if (missing_ == MissingShards::renumber) return list;
    if (const auto difference = difference_of(list.shards, meta_)) {
      throw CorruptFileError(*difference).in_file(root_.path());
    }
    check_lost(list);
    return list;
  }

  void check_lost(const ShardList& list) const {
    uint64_t lost = 0;
    for (const Shard& shard : list.shards) lost += shard.is_lost ? shard.meta.stored_examples : 0;
    const uint64_t present = list.n_examples - lost;
    const uint64_t limit =
        std::max(kMaxLostExamples, present > UINT64_MAX / kMaxLostShare ? UINT64_MAX : present * kMaxLostShare);
    if (lost <= limit) return;
    throw CorruptFileError(cat("shard_sizes: expected at most ", limit, " examples in lost shards, got ", lost,
                               " next to ", present, " others"))
        .in_file(root_.path());
  }

  const io::Location& root_;
  const RootMeta& meta_;
  MissingShards missing_;
};

}  // namespace

ShardList list_shards(const io::Location& root, const RootMeta& meta, MissingShards missing) {
  return Lister(root, meta, missing).list();
}

std::optional<std::string> difference_of(const std::vector<Shard>& shards, const RootMeta& meta) {
  const std::vector<uint64_t>& declared = meta.shard_sizes;
  if (declared.size() != shards.size()) {
    return cat("shard_sizes: expected ", declared.size(), " shards, got ", shards.size());
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const Shard& shard = shards[i];
    if (shard.meta.stored_examples == declared[i]) continue;
    return cat("shard_sizes: expected ", declared[i], " examples in shard ", excerpt(shard.name), ", got ",
               shard.meta.stored_examples);
  }
  return std::nullopt;
}

}  // namespace atompack::atlas_shards
