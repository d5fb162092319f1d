#include "formats/atlas_shards/shard_names.h"

#include <algorithm>

namespace atompack::atlas_shards {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string successor_of(const std::string& name) {
  std::string next = name;
  size_t n_digits = 0;
  for (; n_digits < next.size() && is_digit(next[next.size() - 1 - n_digits]); ++n_digits) {
    char& digit = next[next.size() - 1 - n_digits];
    if (digit != '9') {
      ++digit;
      return next;
    }
    digit = '0';
  }
  // No number of as many digits is greater. Twice as many digits keep names short, however many shards follow.
  return name + std::string(std::max<size_t>(n_digits, 1), '0');
}

std::vector<std::string> numbered_names(uint64_t n, size_t width) {
  std::vector<std::string> names;
  std::string name(width, '0');
  for (uint64_t i = 0; i < n; ++i) {
    names.push_back(name);
    name = successor_of(name);
  }
  return names;
}

size_t usual_width(uint64_t n) { return std::to_string(std::max<uint64_t>(n, 1) - 1).size(); }

std::optional<std::vector<std::string>> original_names(uint64_t n, std::span<const std::string> present) {
  for (size_t width = usual_width(n); width > 0; --width) {
    std::vector<std::string> names = numbered_names(n, width);
    if (std::ranges::includes(names, present)) return names;
  }
  return std::nullopt;
}

}  // namespace atompack::atlas_shards
