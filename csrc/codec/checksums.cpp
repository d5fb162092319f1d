#include "codec/checksums.h"

#include <openssl/sha.h>
#include <zlib.h>

#include <array>

#include "base/ascii.h"
#include "base/error.h"

namespace atompack::codec {

uint32_t adler32(Bytes bytes) {
  return static_cast<uint32_t>(adler32_z(1, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // bits reversed

// Tables to process 8 bytes at a time: entry [k][b] is the remainder of byte b followed by k zero bytes.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = crc >> 8 ^ tables[0][crc & 0xFF];
    }
  }
  return tables;
}();

uint32_t add_byte(uint32_t crc, std::byte byte) {
  return crc >> 8 ^ kTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
}

#if defined(__x86_64__)

// The instruction takes three cycles, and one can start in each: three runs of bytes are computed in parallel and
// joined.
constexpr size_t kRun = 1360;  // three of them fit into 4,096 bytes

// Remainders of a byte of the checksum, for each of its four places, followed by kRun zero bytes.
constexpr auto kSkipRun = [] {
  std::array<uint32_t, 32> bits{};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kRun; ++i) crc = crc >> 8 ^ kTables[0][crc & 0xFF];
    bits[bit] = crc;
  }
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (size_t place = 0; place < 4; ++place) {
    for (size_t byte = 0; byte < 256; ++byte) {
      for (size_t bit = 0; bit < 8; ++bit) tables[place][byte] ^= (byte >> bit & 1) != 0 ? bits[8 * place + bit] : 0;
    }
  }
  return tables;
}();

uint64_t skip_run(uint64_t crc) {
  return kSkipRun[0][crc & 0xFF] ^ kSkipRun[1][crc >> 8 & 0xFF] ^ kSkipRun[2][crc >> 16 & 0xFF] ^
         kSkipRun[3][crc >> 24 & 0xFF];
}

__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(Bytes bytes, uint32_t before) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t crc = ~before;
  for (; left >= 3 * kRun; at += 3 * kRun, left -= 3 * kRun) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kRun; i += 8) {
      crc = __builtin_ia32_crc32di(crc, load_le<uint64_t>(at + i));
      second = __builtin_ia32_crc32di(second, load_le<uint64_t>(at + kRun + i));
      third = __builtin_ia32_crc32di(third, load_le<uint64_t>(at + 2 * kRun + i));
    }
    crc = skip_run(skip_run(crc) ^ second) ^ third;
  }
  for (; left >= 8; at += 8, left -= 8) crc = __builtin_ia32_crc32di(crc, load_le<uint64_t>(at));
  auto last = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) last = __builtin_ia32_crc32qi(last, static_cast<uint8_t>(*at));
  return ~last;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;

#endif

}  // namespace

uint32_t crc32c(Bytes bytes, uint32_t before) {
#if defined(__x86_64__)
  if (has_instruction) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

uint32_t crc32c_by_table(Bytes bytes, uint32_t before) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint32_t crc = ~before;
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = load_le<uint64_t>(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> 8 * i & 0xFF];
  }
  for (; left > 0; ++at, --left) crc = add_byte(crc, *at);
  return ~crc;
}

std::string sha256_hex(Bytes data) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  if (SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data()) == nullptr) {
    throw InternalError("SHA-256: OpenSSL is configured without it");
  }
  return hex_digits({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace atompack::codec
