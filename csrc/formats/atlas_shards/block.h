// Block: the pickled list of a few examples, stored and decompressed (FORMAT.md#databin).
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "codec/zstd_codec.h"
#include "model/value.h"
#include "serial/pickle/machine.h"

namespace atompack::atlas_shards {

// Default limit for reading, and the limit for writing.
inline constexpr uint64_t kMaxBlockBytes = uint64_t{1} << 30;

// Immutable bytes.
class Block {
 public:
  explicit Block(uint64_t size) : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}

  Bytes bytes() const { return {data_.get(), static_cast<size_t>(size_)}; }
  std::span<std::byte> writable() { return {data_.get(), static_cast<size_t>(size_)}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  uint64_t size_;
};

// Decompresses the first frame in `stored`; bytes after it are ignored. `dictionary` may be null. Throws
// CorruptFileError also if the frame declares no content size, more than `max_bytes`, or more than its own blocks can
// hold.
Block decompress_block(Bytes stored, const codec::ZstdDictionary* dictionary, uint64_t max_bytes);

// The examples of a block. Const methods are thread-safe.
class ParsedBlock {
 public:
  // Throws CorruptFileError unless the block is a list of at least `n_examples`, and the errors of Machine::run().
  ParsedBlock(Block block, uint64_t n_examples, pickle::Machine& machine);

  // A list or tuple.
  Value examples() const { return examples_.value(); }
  Value example(uint64_t i) const { return examples_.value().item(i); }
  // Memory in use.
  uint64_t bytes() const { return block_.bytes().size() + examples_.bytes(); }

 private:
  Block block_;
  pickle::KeptValue examples_;
};

}  // namespace atompack::atlas_shards
