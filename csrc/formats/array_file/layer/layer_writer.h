// One new layer: chunks packed into blocks, and a footer behind them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/array_file/layer/footer_encoder.h"
#include "formats/array_file/write/block_queue.h"
#include "io/file_system.h"

namespace atompack::array_file {

struct LayerOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;
  uint64_t block_bytes = 0;
  unsigned n_threads = 1;
};

// For one thread at a time. Throws IoError; all calls can be made again then.
class LayerWriter {
 public:
  LayerWriter(std::unique_ptr<io::NewFile> file, const LayerOptions& options);
  // What was not published goes away.
  ~LayerWriter();

  // Room for one more chunk, to be filled before the next call. Throws FieldError if no block can hold it.
  std::byte* add(uint64_t bytes, ChunkPlace& place);
  // A chunk that lies somewhere already.
  ChunkPlace append(Bytes chunk);
  // A chunk that can still be changed; empty: it is on its way into the file.
  std::span<std::byte> changeable(const ChunkPlace& place) const;
  // Valid until the next call.
  Bytes read(const ChunkPlace& place);

  // Forgets a failure, so that the next call tries again.
  void resume() { queue_->resume(); }

  // All that was added is in the file, with a footer for these arrays, and durable. More can be added after that.
  void finish(std::vector<const LayerArray*> arrays, uint32_t number, const std::string& base_hint);

  io::NewFile& file() { return *file_; }
  // The file; nothing else is possible then.
  std::unique_ptr<io::NewFile> release();

 private:
  void open_block_for(uint64_t bytes);
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
