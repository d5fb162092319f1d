// Writer of a new layer: chunks packed into blocks, and a footer at the end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/layer/footer_encoder.h"
#include "formats/array_file/write/block_queue.h"
#include "io/file_system.h"

namespace atompack::array_file {

struct LayerOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;
  std::optional<uint64_t> block_bytes = {};  // see WriterOptions
  unsigned n_threads = 1;
};

// For one thread at a time. Throws IoError, after which all calls can be repeated.
class LayerWriter {
 public:
  LayerWriter(std::unique_ptr<io::NewFile> file, const LayerOptions& options);
  // Removes an unpublished file.
  ~LayerWriter();

  // Returns memory for one more chunk, to be filled before the next call. `n_cells`: of its array, which decides how
  // large its block becomes. Throws FieldError if no block can hold it.
  std::byte* add(uint64_t bytes, uint64_t n_cells, ChunkPlace& place);
  // Adds a chunk from existing memory.
  ChunkPlace append(Bytes chunk, uint64_t n_cells);
  // Returns a chunk that can still be changed; empty if it is on its way into the file.
  std::span<std::byte> changeable(const ChunkPlace& place) const;
  // Valid until the next call.
  Bytes read(const ChunkPlace& place);

  // Clears a write error, so that the next call tries again.
  void resume() { queue_->resume(); }

  // Makes everything added so far durable, with a footer for these arrays. More can be added afterwards.
  void finish(std::vector<const LayerArray*> arrays, uint32_t number, const std::string& base_hint);

  io::NewFile& file() { return *file_; }
  // Returns the file; the writer cannot be used afterwards.
  std::unique_ptr<io::NewFile> release();

 private:
  bool is_full(uint64_t held, uint64_t bytes, uint64_t n_cells) const;
  void open_block_for(uint64_t bytes, uint64_t n_cells);
  Bytes read_stored(uint32_t block, uint64_t offset, uint64_t bytes);
  LayerContents contents() const;

  std::unique_ptr<io::NewFile> file_;
  const LayerOptions options_;
  std::unique_ptr<BlockQueue> queue_;
  std::vector<std::byte> stored_, decoded_;
  uint32_t decoded_block_ = kNoBlock;

  static constexpr uint32_t kNoBlock = 0xFFFFFFFF;
};

}  // namespace atompack::array_file
