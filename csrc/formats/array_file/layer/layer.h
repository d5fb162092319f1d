// Layer: a file of blocks with a footer at its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/block.h"
#include "formats/array_file/layer/footer.h"
#include "io/byte_source.h"

namespace atompack::array_file {

// The block decoded last, so that chunks of the same block do not decode it again. One per thread that reads; it can be
// used with any reader that is still alive.
class DecodedBlock {
 public:
  DecodedBlock() = default;

 private:
  friend class Layer;
  uint64_t layer_ = 0;
  uint32_t block_ = 0;
  Bytes bytes_;
  std::vector<std::byte> buffer_;
  io::RangeBuffer stored_;  // of a layer that is read by pread
};

// Const methods are thread-safe.
class Layer {
 public:
  // Reads the footer now and blocks one at a time. Throws CorruptFileError or UnsupportedFormatError; errors name the
  // file.
  explicit Layer(std::shared_ptr<const io::ByteSource> file);
  Layer(const Layer&) = delete;  // the footer views its bytes
  Layer(Layer&&) = default;

  const Footer& footer() const { return footer_; }
  const std::string& path() const { return file_->path(); }
  uint64_t file_bytes() const { return file_->length(); }

  // Returns the block with this id. Throws CorruptFileError if there is none or its sizes are wrong. Only for a
  // mapped layer.
  BlockView block(uint32_t id) const;
  // Decoded size of a block by the footer, not yet checked against its stored bytes.
  uint64_t decoded_bytes(uint32_t id) const;
  // Distinguishes this layer from all others of this process, including earlier ones at the same address.
  uint64_t serial() const { return serial_; }

  // Valid until `last` is used again.
  Bytes read(const ChunkRecord& chunk, DecodedBlock& last) const;

 private:
  Bytes decoded(uint32_t id, DecodedBlock& last) const;
  BlockRecord record(uint32_t id) const;
  BlockView read_block(uint32_t id, io::RangeBuffer& buffer) const;
  void index_blocks();

  std::shared_ptr<const io::ByteSource> file_;
  io::RangeBuffer end_buffer_;  // footer and trailer, of a layer that is read by pread
  Bytes end_;
  uint64_t region_bytes_;  // of all blocks
  uint64_t serial_;
  Footer footer_;
  std::unordered_map<uint32_t, uint64_t> block_at_;
};

// Throws CorruptFileError if the chunk is not inside a block of this many decoded bytes.
void check_in_bounds(const ChunkRecord& chunk, uint64_t block_bytes);

}  // namespace atompack::array_file
