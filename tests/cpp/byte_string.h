// A growing byte string for tests: what is put lies there in little-endian order, nothing is checked.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace atompack::test {

class ByteString {
 public:
  ByteString() = default;
  ByteString(std::initializer_list<int> bytes) {
    for (const int byte : bytes) put(static_cast<uint8_t>(byte));
  }
  explicit ByteString(std::string_view text) { append(std::as_bytes(std::span(text))); }

  template <typename T>
  ByteString& put(T value) {
    return append(std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  ByteString& put_all(std::initializer_list<T> values) {
    for (const T value : values) put(value);
    return *this;
  }
  ByteString& append(Bytes bytes) {
    for (const std::byte byte : bytes) data_.push_back(byte);
    return *this;
  }
  ByteString& append(const ByteString& other) { return append(other.bytes()); }
  ByteString& zeros(size_t n) {
    data_.resize(data_.size() + n);
    return *this;
  }
  // Overwrites what stands at `offset`.
  template <typename T>
  ByteString& patch(size_t offset, T value) {
    std::memcpy(data_.data() + offset, &value, sizeof(T));
    return *this;
  }
  ByteString& cut(size_t size) {
    data_.erase(data_.begin() + static_cast<std::ptrdiff_t>(size), data_.end());
    return *this;
  }

  Bytes bytes() const { return data_; }
  std::span<std::byte> writable() { return data_; }
  size_t size() const { return data_.size(); }

 private:
  std::vector<std::byte> data_;
};

}  // namespace atompack::test
