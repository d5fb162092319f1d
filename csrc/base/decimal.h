// Fast conversion of plain decimal numbers, as Python and most programs write them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace atompack {

#if defined(__SSE2__)

namespace decimal {

constexpr int64_t kDigits = 16, kMaxTail = 3;  // digits after the point that are converted together, and one by one

// For k = 16, 17, ...: 2^127 / (5^k * 2^shift), rounded up, where the shift makes the divisor as long as a word.
struct Scale {
  uint64_t power_of_ten;  // 10^(k - 16)
  uint64_t reciprocal;
  int64_t exponent;
};

constexpr std::array<Scale, kMaxTail + 1> scales() {
  std::array<Scale, kMaxTail + 1> made{};
  uint64_t ten = 1, five = 152587890625;  // 5^16
  for (int64_t k = kDigits; k <= kDigits + kMaxTail; ++k, ten *= 10, five *= 5) {
    const int shift = std::countl_zero(five);
    const auto reciprocal = ((static_cast<unsigned __int128>(1) << 127) - 1) / (five << shift) + 1;
    made[static_cast<size_t>(k - kDigits)] = {ten, static_cast<uint64_t>(reciprocal), 1023 - 62 + shift - k};
  }
  return made;
}
inline constexpr auto kScales = scales();

inline constexpr auto kFirstBytes = [] {
  std::array<uint8_t, 2 * kDigits> mask{};
  for (size_t i = 0; i < kDigits; ++i) mask[i] = 0xFF;
  return mask;
}();

inline __m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

// Bit i says whether byte i is at most `limit`.
inline uint32_t bytes_up_to(int8_t limit, __m128i bytes) {
  const __m128i above = _mm_subs_epu8(bytes, _mm_set1_epi8(limit));
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(above, _mm_setzero_si128())));
}

// Value of 16 digits, one a byte.
inline uint64_t value_of(__m128i digits) {
  const __m128i tens = _mm_mullo_epi16(_mm_and_si128(digits, _mm_set1_epi16(0xFF)), _mm_set1_epi16(10));
  const __m128i pairs = _mm_add_epi16(tens, _mm_srli_epi16(digits, 8));
  const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(1 << 16 | 100));
  const __m128i eights = _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(1 << 16 | 10000));
  const auto both = static_cast<uint64_t>(_mm_cvtsi128_si64(eights));
  return (both & 0xFFFFFFFF) * 100000000 + (both >> 32);
}

}  // namespace decimal

// Converts "-12.5": up to three digits without leading zeros, a point, and digits, 19 in all. Returns the end of the
// number, which is no "e", or null for other numbers and the few whose rounding needs more than 128 bits; those are
// left to std::from_chars, whose values these are. Null, too, unless more than 32 bytes are readable before `end`.
inline const char* parse_decimal(const char* at, const char* end, double& value) {
  using namespace decimal;
  if (end - at <= 2 * kDigits) return nullptr;
  const auto is_digit = [](char c) { return static_cast<unsigned char>(c - '0') <= 9; };
  // The end is found first, so that the next number need not wait for this one.
  const __m128i minus = _mm_set1_epi8('-');
  const auto in_number = [&](const char* from) { return bytes_up_to('9' - '-', _mm_sub_epi8(load(from), minus)); };
  const char* const stop = at + std::countr_one(in_number(at) | in_number(at + kDigits) << kDigits);
  const uint64_t is_negative = *at == '-' ? 1 : 0;
  const char* const begin = at + is_negative;
  if (!is_digit(*begin)) return nullptr;
  auto whole = static_cast<uint64_t>(*begin - '0');
  const char* point = begin + 1;
  for (; is_digit(*point); ++point) {
    if (whole == 0 || point == begin + 3) return nullptr;
    whole = 10 * whole + static_cast<uint64_t>(*point - '0');
  }
  const int64_t n = stop - point - 1;  // digits after the point
  if (*point != '.' || n < 1 || (*stop | 0x20) == 'e') return nullptr;

  __m128i digits = _mm_xor_si128(load(point + 1), _mm_set1_epi8('0'));
  uint32_t others = bytes_up_to(9, digits) ^ 0xFFFF;
  const Scale* scale = kScales.data();
  uint64_t tail = 0;
  if (n <= kDigits) {
    others &= (1U << n) - 1;
    digits = _mm_and_si128(digits, load(kFirstBytes.data() + kDigits - n));
  } else {
    if (n > kDigits + kMaxTail - (whole == 0 ? 0 : point - begin)) return nullptr;
    scale += n - kDigits;
    for (const char* digit = point + 1 + kDigits; digit != stop; ++digit) {
      if (!is_digit(*digit)) return nullptr;
      tail = 10 * tail + static_cast<uint64_t>(*digit - '0');
    }
  }
  if (others != 0) return nullptr;
  const uint64_t mantissa = (whole * 10000000000000000 + value_of(digits)) * scale->power_of_ten + tail;
  if (mantissa == 0) return nullptr;
  // The quotient of both words, shifted to 62 or 63 bits, exceeds the true one by less than a unit of the bit that is
  // dropped here, so it is on the same side of each limit of rounding unless its last bits are zero.
  const int shift = std::countl_zero(mantissa);
  const auto quotient =
      static_cast<uint64_t>(static_cast<unsigned __int128>(mantissa << shift) * scale->reciprocal >> 65);
  if ((quotient & 0xFF) == 0) return nullptr;
  const auto exponent = static_cast<uint64_t>(scale->exponent - shift);
  value =
      static_cast<double>(static_cast<int64_t>(quotient)) * std::bit_cast<double>(is_negative << 63 | exponent << 52);
  return stop;
}

#else

inline const char* parse_decimal(const char*, const char*, double&) { return nullptr; }

#endif

}  // namespace atompack
