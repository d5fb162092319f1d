#include "formats/atlas_shards/claims.h"

#include <algorithm>
#include <cerrno>

#include "base/checked_math.h"
#include "base/error_context.h"
#include "formats/atlas_shards/block.h"
#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/layout.h"
#include "io/open_file.h"

namespace atompack::atlas_shards {
namespace {

void check_index_size(const io::OpenFile& index, uint64_t n_blocks) {
  constexpr uint64_t kFront = 1 << 16;
  std::vector<std::byte> front(std::min(index.size(), kFront));
  front.resize(index.read_at(0, front));
  const NpyHeader header = parse_npy_header(front);
  const uint64_t expected = checked_add(n_blocks, 1, "index offsets");
  if (header.count != expected) {
    throw CorruptFileError(cat("index: expected ", expected, " offsets, got ", header.count));
  }
  const uint64_t bytes = checked_mul(header.count, header.item_bytes, "index bytes");
  if (const uint64_t size = index.size(); checked_add(header.data_begin, bytes, "index bytes") > size) {
    throw CorruptFileError(cat("index: expected ", bytes, " bytes at ", header.data_begin, ", got a file of ", size));
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
      throw CorruptFileError(cat("block ", block, ": expected at most ", max_count, " examples, got ", claimed));
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

}  // namespace atompack::atlas_shards
