// Bounds-checked reading of little-endian values from untrusted bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace atompack {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in the file");

using Bytes = std::span<const std::byte>;

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

}  // namespace atompack
