#include "formats/atlas_shards/block.h"

namespace atompack::atlas_shards {

Block decompress_block(Bytes stored, const codec::ZstdDictionary* dictionary, uint64_t max_bytes) {
  const codec::ZstdFrame frame = codec::zstd_first_frame(stored);
  if (!frame.content_bytes) throw CorruptFileError("zstd content size: expected one, got none");
  const uint64_t size = *frame.content_bytes;
  const uint64_t bound = frame.bound < max_bytes ? frame.bound : max_bytes;
  if (size > bound) throw CorruptFileError(cat("zstd content size: expected at most ", bound, " bytes, got ", size));
  Block block(size);
  const Bytes first = stored.first(frame.stored_bytes);
  dictionary ? dictionary->decompress(first, block.writable()) : codec::zstd_decompress(first, block.writable());
  return block;
}

ParsedBlock::ParsedBlock(Block block, uint64_t n_examples, pickle::Machine& machine)
    : block_(std::move(block)), examples_(machine.run_and_keep(block_.bytes())) {
  const Value list = examples_.value();
  if (list.kind() != Kind::list && list.kind() != Kind::tuple) {
    throw CorruptFileError(cat("block: expected a list of examples, got ", name_of(list.kind())));
  }
  if (list.size() < n_examples) {
    throw CorruptFileError(cat("block: expected ", n_examples, " examples, got ", list.size()));
  }
}

}  // namespace atompack::atlas_shards
