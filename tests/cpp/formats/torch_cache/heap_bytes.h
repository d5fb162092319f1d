// Global heap collections made by hand.
#pragma once

#include "byte_string.h"

namespace atompack::test {

struct HeapObject {
  uint16_t number;
  ByteString payload;
};

// A collection with free space at its end, 4096 bytes long.
inline ByteString collection(const std::vector<HeapObject>& objects) {
  ByteString bytes("GCOL");
  bytes.put(uint32_t{1}).put(uint64_t{4096});
  for (const auto& [number, payload] : objects) {
    bytes.put(number).put(uint16_t{0}).put(uint32_t{0}).put(uint64_t{payload.size()}).append(payload);
    bytes.zeros((8 - payload.size() % 8) % 8);
  }
  const size_t left = 4096 - bytes.size();
  if (left >= 16) bytes.put(uint64_t{0}).put(uint64_t{left}).zeros(left - 16);
  return bytes;
}

inline ByteString reference(uint32_t length, uint64_t address, uint32_t number) {
  return ByteString().put(length).put(address).put(number);
}

}  // namespace atompack::test
