// Index of a shard: the offsets of its blocks (FORMAT.md#indexnpy).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/zstd_codec.h"
#include "model/value.h"
#include "serial/pickle/machine.h"

namespace atompack::atlas_shards {

// File names of a dataset (FORMAT.md), and limits that readers and writers share.
inline constexpr char kMetaFile[] = "meta.json";
inline constexpr char kIndexFile[] = "index.npy";
inline constexpr char kDataFile[] = "data.bin";
inline constexpr char kDictionaryFile[] = "zstd_dict.bin";

inline constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 20;
inline constexpr unsigned kRemoteThreads = 32;  // that wait for requests to a store

// Header of a one-dimensional .npy file of integers (FORMAT.md#indexnpy).
struct NpyHeader {
  uint64_t data_begin = 0;
  uint64_t count = 0;
  uint8_t item_bytes = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
  bool big_endian = false;
};

// Throws CorruptFileError for an invalid header, UnsupportedFormatError for other versions of npy.
NpyHeader parse_npy_header(Bytes file);

// Header of `count` unsigned integers of 1, 2, 4 or 8 bytes, little-endian.
std::vector<std::byte> encode_npy_header(uint64_t count, uint8_t item_bytes);

struct BlockRange {
  uint64_t begin = 0, end = 0;  // in data.bin
  uint64_t size() const { return end - begin; }
};

// Keeps the offsets in their stored width: 64-bit ones would take up to eight times as much.
class BlockIndex {
 public:
  // Parses a whole .npy file. Throws CorruptFileError unless it has n_blocks + 1 ascending offsets that end within
  // `data_bytes`.
  BlockIndex(std::vector<std::byte> npy, uint64_t n_blocks, uint64_t data_bytes);

  uint64_t n_blocks() const { return n_blocks_; }
  // Requires `block` < n_blocks().
  BlockRange range(uint64_t block) const { return {offset(block), offset(block + 1)}; }

  // Maximum size of an index file for this number of offsets: includes room for a header, at most 4 GiB.
  static uint64_t max_file_bytes(uint64_t n_blocks);

 private:
  uint64_t offset(uint64_t i) const;
  void check(uint64_t data_bytes) const;

  NpyHeader header_;
  uint64_t n_blocks_;
  std::vector<std::byte> npy_;
};

// Encodes a whole .npy file of ascending offsets, in the narrowest type that holds the last one.
std::vector<std::byte> encode_index(std::span<const uint64_t> offsets);

// Block: the pickled list of a few examples, stored and decompressed (FORMAT.md#databin).

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
