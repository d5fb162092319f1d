#include "base/real.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

namespace atompack {

// The position of the first significant digit decides.
double limit_of(std::string_view number) {
  const bool negative = number[0] == '-';
  const size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, mark);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = mantissa.find_first_of("123456789");
  bool large = first < point;
  if (mark != number.size()) {
    std::string_view exponent = number.substr(mark + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    // An exponent with more digits than fit is decided by its sign.
    int64_t power =
        exponent.starts_with('-') ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
    large = power + static_cast<int64_t>(point) - static_cast<int64_t>(first) > 0;
  }
  const double limit = large ? std::numeric_limits<double>::infinity() : 0.0;
  return negative ? -limit : limit;
}

}  // namespace atompack
