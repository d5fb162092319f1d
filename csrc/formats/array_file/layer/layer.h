// One layer: a file of blocks with a footer behind them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/block.h"
#include "formats/array_file/layer/footer.h"
#include "io/piece_reader.h"

namespace atompack::array_file {

// The block that was decoded last, so that chunks which share it do not decode it again. One for each thread that
// reads; it may be used for any reader, as long as that lives.
class DecodedBlock {
 public:
  DecodedBlock() = default;

 private:
  friend class Layer;
  uint64_t layer_ = 0;
  uint32_t block_ = 0;
  Bytes bytes_;
  std::vector<std::byte> buffer_;
  io::PieceBuffer stored_;  // of a layer that is read by pread
};

// Const methods are thread-safe.
class Layer {
 public:
  // Keeps a view of the bytes. Throws CorruptFileError or UnsupportedFormatError; errors name `path`.
  Layer(Bytes file, std::string path);
  // Of a file that is read by pread: its footer now, its blocks one at a time. `file` outlives it.
  explicit Layer(const io::PieceReader& file);

  const Footer& footer() const { return footer_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }

  // The block of this id. Throws CorruptFileError if there is none, or its sizes are wrong. Not of a layer that is read
  // by pread.
  BlockView block(uint32_t id) const;
  // What the footer says that a block decodes to: memory is taken for it once its stored bytes bear it out.
  uint64_t decoded_bytes(uint32_t id) const;
  // Tells this layer from all others of this process, also from those that lay at the same address before.
  uint64_t serial() const { return serial_; }

  // Valid until `last` is used again.
  Bytes read(const ChunkRecord& chunk, DecodedBlock& last) const;

 private:
  Bytes decoded(uint32_t id, DecodedBlock& last) const;
  BlockRecord record(uint32_t id) const;
  BlockView read_block(uint32_t id, io::PieceBuffer& buffer) const;
  void index_blocks();

  std::string path_;
  const io::PieceReader* pieces_ = nullptr;
  std::vector<std::byte> end_;  // footer and trailer, of a layer that is read by pread
  uint64_t region_bytes_ = 0;   // of all blocks
  uint64_t file_bytes_;
  uint64_t serial_;
  Bytes blocks_;
  Footer footer_;
  std::unordered_map<uint32_t, uint64_t> block_at_;
};

// Throws CorruptFileError if the chunk does not lie in a block of this many decoded bytes.
void check_lies_in(const ChunkRecord& chunk, uint64_t block_bytes);

}  // namespace atompack::array_file
