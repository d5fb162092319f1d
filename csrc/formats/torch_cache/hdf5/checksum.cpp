#include "formats/torch_cache/hdf5/checksum.h"

#include <array>
#include <bit>

namespace atompack::torch_cache {
namespace {

constexpr size_t kBlock = 12;

struct State {
  uint32_t a, b, c;

  void add(const std::byte* block) {
    a += load_le<uint32_t>(block);
    b += load_le<uint32_t>(block + 4);
    c += load_le<uint32_t>(block + 8);
  }

  // Between blocks: six rounds of subtract, rotate, add.
  void mix() {
    a = (a - c) ^ std::rotl(c, 4);
    c += b;
    b = (b - a) ^ std::rotl(a, 6);
    a += c;
    c = (c - b) ^ std::rotl(b, 8);
    b += a;
    a = (a - c) ^ std::rotl(c, 16);
    c += b;
    b = (b - a) ^ std::rotl(a, 19);
    a += c;
    c = (c - b) ^ std::rotl(b, 4);
    b += a;
  }

  // After the last block.
  void finish() {
    c = (c ^ b) - std::rotl(b, 14);
    a = (a ^ c) - std::rotl(c, 11);
    b = (b ^ a) - std::rotl(a, 25);
    c = (c ^ b) - std::rotl(b, 16);
    a = (a ^ c) - std::rotl(c, 4);
    b = (b ^ a) - std::rotl(a, 14);
    c = (c ^ b) - std::rotl(b, 24);
  }
};

}  // namespace

uint32_t lookup3(Bytes bytes) {
  const uint32_t start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  State state{start, start, start};
  if (bytes.empty()) return state.c;
  while (bytes.size() > kBlock) {
    state.add(bytes.data());
    state.mix();
    bytes = bytes.subspan(kBlock);
  }
  std::array<std::byte, kBlock> last{};  // what is missing counts as zeros
  store(last.data(), bytes);
  state.add(last.data());
  state.finish();
  return state.c;
}

}  // namespace atompack::torch_cache
