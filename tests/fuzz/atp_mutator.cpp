// Mutates .atp files where it matters: libFuzzer alone would spend its time on the zeros of the header slots, and
// every change to a slot would end at its checksum.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>

#include "codec/checksums.h"
#include "formats/atp/header.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using atompack::atp::Header;

constexpr size_t kSlotBytes = Header::kEncodedSize;
constexpr size_t kDataStart = 2 * kSlotBytes;
constexpr size_t kFieldBytes = 76;  // what of a slot means something

void seal(uint8_t* slot) {
  const uint32_t sum = atompack::codec::adler32(std::as_bytes(std::span(slot, kSlotBytes - 4)));
  std::memcpy(slot + kSlotBytes - 4, &sum, sizeof(sum));
}

// Changes bytes in [begin, end) and moves nothing after them, so that offsets keep their meaning.
void mutate_in_place(uint8_t* begin, uint8_t* end) {
  const auto size = static_cast<size_t>(end - begin);
  if (size > 0) LLVMFuzzerMutate(begin, size, size);
}

// A random stretch, so that the change is small against the file.
void mutate_stretch(uint8_t* begin, uint8_t* end, std::minstd_rand& random) {
  const auto size = static_cast<size_t>(end - begin);
  if (size == 0) return;
  const size_t at = random() % size;
  mutate_in_place(begin + at, begin + at + std::min<size_t>(1 + random() % 32, size - at));
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::minstd_rand random(seed);
  if (size < kDataStart) return LLVMFuzzerMutate(data, size, max_size);
  switch (random() % 8) {
    case 0:  // also what is not repaired
      return LLVMFuzzerMutate(data, size, max_size);
    case 1:  // bytes come and go after the header
      size = kDataStart + LLVMFuzzerMutate(data + kDataStart, size - kDataStart, max_size - kDataStart);
      break;
    case 2:
      mutate_in_place(data, data + kFieldBytes);
      break;
    case 3:
      mutate_in_place(data + kSlotBytes, data + kSlotBytes + kFieldBytes);
      break;
    default:
      mutate_stretch(data + kDataStart, data + size, random);
  }
  seal(data);
  seal(data + kSlotBytes);
  return size;
}
