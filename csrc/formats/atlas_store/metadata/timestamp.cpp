#include "formats/atlas_store/metadata/timestamp.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "base/ascii.h"

namespace atompack::atlas_store {
namespace {

using std::chrono::sys_days, std::chrono::year, std::chrono::month, std::chrono::day;

constexpr int64_t kPerSecond = 1'000'000'000;

// Parses the string from the front; each method returns false if the next part is not as expected.
class TimestampParser {
 public:
  explicit TimestampParser(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }

  bool one_of(std::string_view characters) {
    if (text_.empty() || characters.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool literal(std::string_view literal) {
    if (!text_.starts_with(literal)) return false;
    text_.remove_prefix(literal.size());
    return true;
  }

  bool number(int digits, int max, int& value) {
    value = 0;
    for (int i = 0; i < digits; ++i) {
      if (text_.empty() || !is_digit(text_.front())) return false;
      value = 10 * value + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value <= max;
  }

  // Any number of digits; those after the ninth are dropped.
  bool fraction(int64_t& nanoseconds) {
    nanoseconds = 0;
    if (!one_of(".")) return true;
    int64_t worth = kPerSecond / 10;
    if (text_.empty() || !is_digit(text_.front())) return false;
    for (; !text_.empty() && is_digit(text_.front()); worth /= 10, text_.remove_prefix(1)) {
      nanoseconds += worth * (text_.front() - '0');
    }
    return true;
  }

  // In seconds.
  bool offset(int64_t& seconds) {
    seconds = 0;
    if (one_of("Zz")) return true;
    const bool west = literal("-") || literal("\u2212");  // U+2212 is the minus sign, not the hyphen
    int hours = 0, minutes = 0;
    if (!west && !one_of("+")) return false;
    if (!number(2, 23, hours) || !one_of(":") || !number(2, 59, minutes)) return false;
    seconds = (west ? -60 : 60) * (60 * hours + minutes);
    return true;
  }

 private:
  std::string_view text_;
};

std::optional<int64_t> seconds_of(TimestampParser& parts) {
  int y = 0, m = 0, d = 0, hours = 0, minutes = 0, seconds = 0;
  const bool has_date = parts.number(4, 9999, y) && parts.one_of("-") && parts.number(2, 12, m) && parts.one_of("-") &&
                        parts.number(2, 31, d) && parts.one_of("Tt ");
  const bool has_time = has_date && parts.number(2, 23, hours) && parts.one_of(":") && parts.number(2, 59, minutes) &&
                        parts.one_of(":") && parts.number(2, 60, seconds);
  const std::chrono::year_month_day date{year(y), month(static_cast<unsigned>(m)), day(static_cast<unsigned>(d))};
  if (!has_time || !date.ok()) return std::nullopt;
  return 86400 * int64_t{sys_days(date).time_since_epoch().count()} + 3600 * hours + 60 * minutes + seconds;
}

}  // namespace

std::optional<Timestamp> parse_timestamp(std::string_view text) {
  TimestampParser parts(text);
  const std::optional<int64_t> seconds = seconds_of(parts);
  int64_t fraction = 0, offset = 0, nanoseconds = 0;
  if (!seconds || !parts.fraction(fraction) || !parts.offset(offset) || !parts.at_end()) return std::nullopt;
  // Counts back from the next second, so that the earliest timestamp does not overflow in between.
  const int64_t next = *seconds - offset + (*seconds - offset < 0 ? 1 : 0);
  const int64_t rest = *seconds - offset < 0 ? fraction - kPerSecond : fraction;
  if (__builtin_mul_overflow(next, kPerSecond, &nanoseconds)) return std::nullopt;
  if (__builtin_add_overflow(nanoseconds, rest, &nanoseconds)) return std::nullopt;
  return Timestamp{nanoseconds};
}

std::string format_timestamp(Timestamp moment) {
  int64_t fraction = moment.nanoseconds % kPerSecond;
  if (fraction < 0) fraction += kPerSecond;
  const int64_t seconds = moment.nanoseconds / kPerSecond - (moment.nanoseconds % kPerSecond < 0 ? 1 : 0);
  const std::chrono::sys_seconds at{std::chrono::seconds(seconds)};
  const sys_days midnight = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(midnight);
  const std::chrono::hh_mm_ss time(at - midnight);
  int digits = fraction == 0 ? 0 : 9;
  for (; digits > 3 && fraction % 1000 == 0; digits -= 3) fraction /= 1000;
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  std::string result = text.data();
  if (digits > 0) {
    std::snprintf(text.data(), text.size(), ".%0*lld", digits, static_cast<long long>(fraction));
    result += text.data();
  }
  return result + "Z";
}

}  // namespace atompack::atlas_store
