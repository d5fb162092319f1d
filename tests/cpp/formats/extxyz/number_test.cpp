#include "formats/extxyz/number.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <string>

#include "formats/extxyz/number_list.h"

namespace atompack::extxyz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string text_of(double value) {
  std::string text;
  append_real(value, text);
  return text;
}

std::string marked(double value) {
  std::string text;
  append_marked_real(value, text);
  return text;
}

TEST(Number, FortranRealsHaveAPoint) {
  EXPECT_EQ(parse_real("1.5D+3"), 1500.0);
  EXPECT_EQ(parse_real("-1.d0"), -1.0);
  EXPECT_EQ(parse_real(".5d1"), 5.0);
  EXPECT_EQ(parse_real("12d3"), std::nullopt);
  EXPECT_EQ(parse_real(".d1"), std::nullopt);
  EXPECT_EQ(parse_real("1.5d"), std::nullopt);
  EXPECT_EQ(parse_real("1.5d1.5"), std::nullopt);
  EXPECT_EQ(parse_real("1.d400"), kInf);
}

TEST(Number, BeyondADouble) {
  EXPECT_EQ(parse_real("1e400"), kInf);
  EXPECT_EQ(parse_real("-1e+400"), -kInf);
  EXPECT_EQ(parse_real("1e-400"), 0.0);
  EXPECT_TRUE(std::signbit(parse_real("-1e-400").value()));
  EXPECT_EQ(parse_real("1e99999999999999999999"), kInf);
  EXPECT_EQ(parse_real("1e-99999999999999999999"), 0.0);
  EXPECT_EQ(parse_real(std::string(400, '9')), kInf);
  EXPECT_EQ(parse_real("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_EQ(parse_real("0." + std::string(400, '0') + "1e800"), kInf);
  EXPECT_EQ(parse_real("1" + std::string(400, '0') + "e-800"), 0.0);
  EXPECT_EQ(parse_real("2e-324"), 0.0);
  EXPECT_EQ(parse_real("3e-324"), std::numeric_limits<double>::denorm_min());
}

TEST(Number, TakesOneWord) {
  const std::string line = "1.5 +2\t3.d1 x";
  const char* at = line.data();
  const char* const end = at + line.size();
  double value = 0;
  ASSERT_TRUE(take_real(at, end, end, value));
  EXPECT_EQ(value, 1.5);
  EXPECT_EQ(*at, ' ');
  EXPECT_FALSE(take_real(at, end, end, value));  // a space is not a number
  ++at;
  ASSERT_TRUE(take_real(at, end, end, value));
  EXPECT_EQ(value, 2);
  ++at;
  ASSERT_TRUE(take_real(at, end, end, value));
  EXPECT_EQ(value, 30);
  ++at;
  const char* const before = at;
  EXPECT_FALSE(take_real(at, end, end, value));
  EXPECT_EQ(at, before);
  EXPECT_EQ(value, 30);
}

TEST(Number, TextIsShortAndExact) {
  EXPECT_EQ(text_of(0.1), "0.1");
  EXPECT_EQ(text_of(-0.0), "-0");
  EXPECT_EQ(text_of(-std::nan("")), "nan");
  EXPECT_EQ(text_of(-kInf), "-inf");
  EXPECT_EQ(marked(5), "5.0");
  EXPECT_EQ(marked(1e300), "1e+300");
  EXPECT_EQ(marked(kInf), "inf");
  EXPECT_EQ(marked(std::nan("")), "nan");
  EXPECT_EQ(marked(2.5), "2.5");
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(parse_real(marked(value)).value()), std::bit_cast<uint64_t>(value));
  }
}

TEST(NumberList, DepthIsBounded) {
  const auto is_list = [](const std::string& text) {
    Array array;
    return parse_number_list(text, ListStyle::json, array);
  };
  EXPECT_TRUE(is_list(std::string(16, '[') + "1" + std::string(16, ']')));
  EXPECT_FALSE(is_list(std::string(17, '[') + "1" + std::string(17, ']')));
  EXPECT_FALSE(is_list(std::string(1 << 20, '[')));
}

}  // namespace
}  // namespace atompack::extxyz
