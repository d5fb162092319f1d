// Layers made for tests, written in the order in which archives must be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "byte_string.h"

namespace atompack::test {

struct MadeChunk {
  std::vector<uint32_t> coordinate;
  uint32_t offset = 0, bytes = 0;
};

struct MadeArray {
  std::string name = "a";  // at most 16 bytes, as are all texts here
  uint8_t type = 3;        // int32
  int lists_around = 0;    // so many lists, each of the next
  std::vector<uint32_t> shape = {}, chunk_shape = {};
  std::vector<MadeChunk> chunks = {};
  std::optional<int64_t> fill = {};
  bool deleted = false;
  std::vector<uint16_t> attributes = {};  // key, value, key, value
};

// A layer of one uncompressed block; its attributes are "k" -> int32 7 and "x" -> true where an array names them.
class MadeLayer {
 public:
  MadeLayer(ByteString block, const std::vector<MadeArray>& arrays) : block_bytes_(block.size()) {
    const size_t blocks = put_block();
    std::vector<Pointers> pointers;
    for (const MadeArray& array : arrays) pointers.push_back(put_children(array));
    pad(8);
    const size_t records = archive_.size();
    for (size_t i = 0; i < arrays.size(); ++i) put_array(arrays[i], pointers[i]);
    put_root(blocks, records, arrays.size());
    const uint64_t size = archive_.size();
    file_ = block.append(archive_).put(size).append(ByteString("ARRF"));
  }

  const ByteString& file() const { return file_; }
  Bytes archive() const { return archive_.bytes(); }

 private:
  struct Pointers {
    size_t type = 0, shape = 0, names = 0, chunk_shape = 0, chunks = 0, attributes = 0;
  };

  void pad(size_t alignment) { archive_.zeros((alignment - archive_.size() % alignment) % alignment); }
  void pointer(size_t target) { archive_.put(static_cast<int64_t>(target) - static_cast<int64_t>(archive_.size())); }
  void vector(size_t target, uint64_t count) {
    pointer(target);
    archive_.put(count);
  }
  void text(std::string_view text) {
    archive_.append(as_bytes(text));
    for (size_t i = text.size(); i < 16; ++i) archive_.put(uint8_t{0xFF});
  }
  template <typename T>
  size_t integers(const std::vector<T>& values) {
    pad(sizeof(T));
    const size_t at = archive_.size();
    for (const T value : values) archive_.put(value);
    return at;
  }

  size_t put_block() {
    archive_.put(uint64_t{0}).put(uint64_t{0}).put(uint64_t{block_bytes_}).put(uint64_t{block_bytes_}).zeros(24);
    return 0;
  }

  void put_type(uint8_t tag, size_t child) {
    archive_.put(uint64_t{tag});
    tag == 14 ? pointer(child) : static_cast<void>(archive_.zeros(8));
    archive_.zeros(8);
  }

  size_t put_nested_types(const MadeArray& array) {
    size_t child = archive_.size();
    for (int i = 0; i < array.lists_around; ++i) {
      pad(8);
      const size_t at = archive_.size();
      put_type(i == 0 ? array.type : 14, child);
      child = at;
    }
    return child;
  }

  Pointers put_children(const MadeArray& array) {
    Pointers at;
    at.type = put_nested_types(array);
    at.shape = integers(array.shape);
    pad(8);
    at.names = archive_.size();
    at.chunk_shape = integers(array.chunk_shape);
    std::vector<size_t> coordinates;
    for (const MadeChunk& chunk : array.chunks) coordinates.push_back(integers(chunk.coordinate));
    pad(8);
    at.chunks = archive_.size();
    for (size_t i = 0; i < array.chunks.size(); ++i) {
      vector(coordinates[i], array.chunks[i].coordinate.size());
      archive_.put(uint32_t{0}).put(array.chunks[i].offset).put(array.chunks[i].bytes).zeros(4);
    }
    at.attributes = integers(array.attributes);
    return at;
  }

  void put_array(const MadeArray& array, const Pointers& at) {
    text(array.name);
    put_type(array.lists_around > 0 ? 14 : array.type, at.type);
    vector(at.shape, array.shape.size());
    vector(at.names, 0);
    vector(at.chunk_shape, array.chunk_shape.size());
    vector(at.chunks, array.chunks.size());
    archive_.put(uint64_t{array.fill.has_value()}).put(uint64_t{1}).put(array.fill.value_or(0)).zeros(8);
    archive_.put(uint64_t{array.deleted}).zeros(8);
    vector(at.attributes, array.attributes.size() / 2);
  }

  void put_root(size_t blocks, size_t arrays, size_t n_arrays) {
    const size_t keys = archive_.size();
    text("k");
    text("x");
    const size_t values = archive_.size();
    archive_.put(uint32_t{3}).put(int32_t{7}).zeros(16);
    archive_.put(uint8_t{0}).put(uint8_t{1}).zeros(22);
    archive_.put(uint64_t{4});
    vector(blocks, 1);
    vector(arrays, n_arrays);
    vector(keys, 2);
    vector(values, 2);
    archive_.put(uint64_t{0});
    text("");
  }

  uint64_t block_bytes_;
  ByteString archive_, file_;
};

}  // namespace atompack::test
