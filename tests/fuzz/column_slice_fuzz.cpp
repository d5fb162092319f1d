#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "array_layers.h"
#include "formats/array_file/gathered.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using array_file::Array;
using array_file::Column;
using array_file::Layers;
using array_file::Slice;
using test::GatheredRow;

// More elements would only be slow.
constexpr uint64_t kMostElements = 1 << 12;
constexpr size_t kMostRows = 40;

// Small numbers that the input decides.
class Choices {
 public:
  explicit Choices(uint32_t seed) : state_(seed) {}
  uint64_t below(uint64_t end) {
    state_ = state_ * 1664525 + 1013904223;
    return (state_ >> 8) % end;
  }

 private:
  uint32_t state_;
};

// The axes of an array, unless the slice of it is too large to be read here.
std::optional<size_t> rank_of(const Layers& layers, const std::string& name, const SliceRequest& request) {
  try {
    const Array array = layers.array(name);
    const size_t rank = array.shape.size();
    if (request.start && request.start->size() != rank) return std::nullopt;
    uint64_t n = 1;
    for (const uint64_t count : test::clamped(array.shape, request).count) n = std::min(n * count, kMostElements + 1);
    return n > kMostElements ? std::nullopt : std::optional(rank);
  } catch (const DataError&) {
    return 0;  // the slice says so too
  }
}

template <typename Read>
auto unless_damaged(const Read& read) {
  std::optional<decltype(read())> found;
  allowing_damage([&] { found = read(); });
  return found;
}

void compare(const Layers& layers, const SliceRequest& request, Choices& choices) {
  std::vector<std::string> names;
  for (const std::string& name : layers.names()) {
    if (rank_of(layers, name, request)) names.push_back(name);
  }
  if (names.empty()) return;
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto column = std::make_shared<const Column>(layers, views);
  array_file::BlockCache cache(1 << 16);
  std::vector<std::optional<GatheredRow>> alone;
  for (size_t i = 0; i < names.size(); ++i) {
    alone.push_back(unless_damaged([&] { return test::read_alone(layers, views[i], request); }));
    const auto row = static_cast<int64_t>(i);
    const auto one = unless_damaged([&] { return test::gather(Slice(column, {&row, 1}, request, cache), false); });
    require(one.has_value() == alone[i].has_value(), "both ways to read an array agree on whether it is damaged");
    if (one) require(one->front() == *alone[i], "both ways to read an array give the same");
  }
  std::vector<int64_t> rows(1 + choices.below(kMostRows));
  for (int64_t& row : rows) row = static_cast<int64_t>(choices.below(names.size()));
  const auto all = unless_damaged([&] { return test::gather(Slice(column, rows, request, cache), true); });
  const auto is_sound = [&](int64_t row) { return alone[static_cast<size_t>(row)].has_value(); };
  require(all.has_value() == std::ranges::all_of(rows, is_sound), "a column is damaged where one of its arrays is");
  for (size_t i = 0; all && i < rows.size(); ++i) {
    require(all->at(i) == *alone[static_cast<size_t>(rows[i])], "a row is what the array is");
  }
}

}  // namespace

void read_columns(Bytes input) {
  allowing_damage([&] {
    const Layers layers = array_layers(input);
    Choices choices(static_cast<uint32_t>(input.size()) * 31 + std::to_integer<uint32_t>(input.back()));
    compare(layers, {}, choices);
    for (size_t rank = 0; rank < 4; ++rank) {
      SliceRequest request{std::vector<uint64_t>(rank), std::vector<uint64_t>(rank)};
      for (uint64_t& start : *request.start) start = choices.below(5);
      for (uint64_t& count : *request.count) count = choices.below(9);
      compare(layers, request, choices);
    }
  });
}

}  // namespace atompack::fuzz
