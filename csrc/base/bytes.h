// Bounds-checked reading of little-endian values from untrusted bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atompack {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in the file");

using Bytes = std::span<const std::byte>;

// Hint: starts fetching bytes into the CPU cache.
inline void prefetch(Bytes bytes) {
  constexpr size_t kMax = 4096, kLine = 64;  // the hardware prefetcher continues a longer run by itself
  // To GCC a function that only prefetches has no effect, and it drops calls to it unless there is an `asm volatile`.
  asm volatile("");
  for (size_t at = 0; at < bytes.size() && at < kMax; at += kLine) __builtin_prefetch(bytes.data() + at);
}

// Unaligned load. Requires sizeof(T) readable bytes.
template <typename T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Unaligned store; returns the address after the value. Requires room for it.
template <typename T>
std::byte* store_le(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
  return to + sizeof(T);
}

inline std::byte* store(std::byte* to, Bytes bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

inline void append(std::vector<std::byte>& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

// Appends the values one after another.
template <typename... Values>
void append_le(std::vector<std::byte>& to, const Values&... values) {
  (append(to, std::as_bytes(std::span(&values, 1))), ...);
}

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// Inline comparison for short runs, where a call to memcmp costs more than the comparison.
inline bool same_bytes(const std::byte* a, const void* other, size_t n) {
  const auto* const b = static_cast<const std::byte*>(other);
  if (n < 4 || n > 16) return std::memcmp(a, b, n) == 0;
  if (n < 8)
    return load_le<uint32_t>(a) == load_le<uint32_t>(b) && load_le<uint32_t>(a + n - 4) == load_le<uint32_t>(b + n - 4);
  return load_le<uint64_t>(a) == load_le<uint64_t>(b) && load_le<uint64_t>(a + n - 8) == load_le<uint64_t>(b + n - 8);
}

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Cursor over `bytes`; offsets in its errors count from their start. Not thread-safe, cheap to construct.
class ByteCursor {
 public:
  explicit ByteCursor(Bytes bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  Bytes take(uint64_t n, std::string_view what) {
    if (n > remaining()) [[unlikely]] {
      fail(n, what);
    }
    const Bytes taken = bytes_.subspan(position_, n);
    position_ += n;
    return taken;
  }

  template <typename T>
  T read_le(std::string_view what) {
    return load_le<T>(take(sizeof(T), what).data());
  }

 private:
  [[noreturn]] void fail(uint64_t n, std::string_view what) const {
    throw CorruptFileError(cat(what, ": expected ", n, " bytes, got ", remaining()), position_);
  }

  Bytes bytes_;
  uint64_t position_ = 0;
};

// Byte buffer that is written once, front to back.

// A growing buffer that leaves new memory uninitialized.
class Buffer {
 public:
  // Appends n uninitialized bytes. The first allocation is at least `min_capacity` bytes, so that few follow.
  std::byte* extend(size_t n, size_t min_capacity) {
    if (capacity_ - size_ < n) grow(std::max({size_ + n, 2 * capacity_, min_capacity}));
    std::byte* const room = bytes_.get() + size_;
    size_ += n;
    return room;
  }
  // Drops the bytes from `size` on. Requires size <= current size.
  void shrink(size_t size) { size_ = size; }

  std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  void grow(size_t capacity) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
    std::copy_n(bytes_.get(), size_, larger.get());
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<std::byte[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace atompack
