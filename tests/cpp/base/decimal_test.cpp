#include "base/decimal.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <random>
#include <string>

namespace atompack {
namespace {

constexpr size_t kBytesAfter = 33;

struct Parsed {
  size_t length = 0;  // 0: left to others
  double value = 0;
};

Parsed parse(const std::string& number, char after = ',') {
  const std::string text = number + after + std::string(kBytesAfter, '7');
  Parsed parsed;
  const char* const stop = parse_decimal(text.data(), text.data() + text.size(), parsed.value);
  if (stop != nullptr) parsed.length = static_cast<size_t>(stop - text.data());
  return parsed;
}

// Share of random numbers that were converted, all to the nearest float64.
template <typename Draw>
double share_of(const Draw& draw) {
  constexpr int kNumbers = 200'000;
  std::mt19937_64 random(7);
  int n_taken = 0;
  for (int i = 0; i < kNumbers; ++i) {
    const std::string number = draw(random);
    const Parsed parsed = parse(number, i % 2 == 0 ? ',' : '\n');
    if (parsed.length == 0) continue;
    double expected = 0;
    std::from_chars(number.data(), number.data() + number.size(), expected);
    EXPECT_EQ(std::bit_cast<uint64_t>(parsed.value), std::bit_cast<uint64_t>(expected)) << number;
    EXPECT_EQ(parsed.length, number.size()) << number;
    ++n_taken;
  }
  return static_cast<double>(n_taken) / kNumbers;
}

std::string text_of(double value, int precision = -1) {
  std::array<char, 400> text;
  char* const last = text.data() + text.size();
  const auto end = precision < 0 ? std::to_chars(text.data(), last, value, std::chars_format::fixed)
                                 : std::to_chars(text.data(), last, value, std::chars_format::fixed, precision);
  return {text.data(), end.ptr};
}

#if defined(__SSE2__)
constexpr double kMost = 0.98;
#else
constexpr double kMost = 0;
#endif

TEST(Decimal, NearestOfWhatProgramsWrite) {
  std::normal_distribution<double> normal;
  EXPECT_GE(share_of([&](auto& random) { return text_of(normal(random)); }), kMost);
  EXPECT_GE(share_of([&](auto& random) { return text_of(100 * normal(random)); }), kMost);
  EXPECT_GE(share_of([&](auto& random) { return text_of(10 * normal(random), 8); }), kMost);
  share_of([&](auto& random) { return text_of(normal(random), static_cast<int>(random() % 20)); });
}

TEST(Decimal, NearestBetweenTwoFloats) {
  std::uniform_real_distribution<double> uniform(-10, 10);
  // The digits of a number half way between two, cut where 19 of them end, or with the last one changed.
  share_of([&](auto& random) {
    const double below = uniform(random), above = std::nextafter(below, 100);
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "%.18Lf", (static_cast<long double>(below) + above) / 2);
    return std::string(text.data());
  });
  // A half of the last bit that counts, exactly.
  share_of([](auto& random) { return text_of(static_cast<double>(random() % 2048) / 1024 + 512, 12); });
}

TEST(Decimal, OthersAreLeft) {
  for (const char* const number : {"",
                                   "-",
                                   "1",
                                   "-7",
                                   ".5",
                                   "1.",
                                   "-.5",
                                   "--1.5",
                                   "+1.5",
                                   "01.5",
                                   "00.5",
                                   "1234.5",
                                   "1.5e3",
                                   "1.5E3",
                                   "1.5.5",
                                   "1.5-5",
                                   "1.5/5",
                                   "nan",
                                   "inf",
                                   "0.0",
                                   "-0.0",
                                   "1.2345678901234567890",
                                   "12.345678901234567890",
                                   "0.12345678901234567890",
                                   "1.55555555555555555555555555555555555555555555"}) {
    EXPECT_EQ(parse(number).length, 0) << number;
  }
}

TEST(Decimal, LooksAtNoByteAfterTheEnd) {
  const std::string text = "1.5," + std::string(28, ' ');
  double value = 0;
  EXPECT_EQ(parse_decimal(text.data(), text.data() + text.size(), value), nullptr);
}

}  // namespace
}  // namespace atompack
