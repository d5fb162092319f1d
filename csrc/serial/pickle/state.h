// State and errors of one pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "model/value.h"
#include "serial/pickle/opcodes.h"

namespace atompack::pickle {

// Kinds of cells that are not values yet.
inline constexpr Kind kGlobal{128};       // node: meaning; size: the number that goes with it
inline constexpr Kind kByteArray{129};    // only as the buffer of an array
inline constexpr Kind kStorage{130};      // of torch; node: its number
inline constexpr Kind kOrderedDict{131};  // always empty

// Limits on the values of a pickle. Values and bytes are counted once per reference, so that few bytes cannot stand for
// endless data. The limit on bytes is never below the size of the block.
struct Limits {
  uint32_t max_depth = 64;  // nested containers, not counting the outermost
  uint64_t max_values = uint64_t{1} << 24;
  uint64_t max_bytes = uint64_t{1} << 30;
};

struct Storage {
  uint32_t type = 0;  // number in the tree
  uint64_t count = 0;
  Bytes data;
};

// Bytes that are not in the block as such: protocol 2 stores them as a string.
class DecodedBytes {
 public:
  void clear() {
    blocks_.clear();
    used_ = 0;
  }
  uint64_t used() const { return used_; }
  std::span<std::byte> add(size_t size) {
    used_ += size;
    return {blocks_.emplace_back(std::make_unique<std::byte[]>(size)).get(), size};
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  uint64_t used_ = 0;
};

struct State {
  ValueTree tree;
  std::vector<Storage> storages;
  DecodedBytes decoded;
  Bytes block;
  Limits limits;

  std::span<const RecordClass> classes;  // by the numbers of classes in the tree

  std::span<const Cell> items(const Cell& container) const { return tree.items(container); }
};

// The caller adds the offset.
template <typename... Parts>
[[noreturn]] void corrupt(const Parts&... parts) {
  throw_corrupt("pickle: ", parts...);
}

template <typename... Parts>
[[noreturn]] void unsafe(const Parts&... parts) {
  throw UnsafePickleError(cat("pickle: ", parts...));
}

// "a list", "a global": for messages.
std::string_view describe(const Cell& cell);

inline void expect_kind(const Cell& cell, Kind kind, std::string_view what) {
  if (cell.kind() != kind) corrupt(what, ": expected ", describe(Cell::make(kind)), ", got ", describe(cell));
}

inline void expect_count(std::span<const Cell> items, size_t min, size_t max, std::string_view what) {
  if (items.size() < min || items.size() > max) {
    corrupt(what, ": expected ", min, " entries, got ", items.size());
  }
}

}  // namespace atompack::pickle
