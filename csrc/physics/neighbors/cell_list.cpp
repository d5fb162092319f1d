#include "physics/neighbors/cell_list.h"

#include <algorithm>
#include <cmath>

namespace atompack::physics {
namespace {

// Number of boxes along a side, each at least `min_width` wide.
double count_boxes(double length, double min_width) {
  constexpr double kMax = 1 << 20;  // three such numbers fit in 64 bits
  return std::clamp(std::floor(length / min_width), 1.0, kMax);
}

}  // namespace

Boxes::Boxes(const std::array<Side, 3>& sides) {
  // With fewer boxes, the rows around a box hold nearly all images.
  constexpr double kMinBoxes = 5;
  std::array<uint64_t, 3> n{};
  for (size_t direction = 0; direction < 3; ++direction) {
    const Side& side = sides[direction];
    const bool is_last = direction == 2;
    double boxes = count_boxes(side.length, is_last ? side.reach / kNarrow : side.reach);
    if (!is_last && boxes < kMinBoxes) boxes = 1;
    n[direction] = static_cast<uint64_t>(boxes);
    cuts_[direction] = {.first = side.first, .per_length = boxes > 1 ? boxes / side.length : 0, .last = boxes - 1};
  }
  // Empty boxes after the end of each line keep the rows around a box from reaching into other lines.
  cuts_[1].stride = n[2] + kNarrow;
  cuts_[0].stride = (n[1] + 1) * cuts_[1].stride;
  cuts_[2].offset = cuts_[0].stride + cuts_[1].stride + kNarrow;
  n_numbers_ = (n[0] + 2) * cuts_[0].stride + 2 * cuts_[1].stride + 2 * row_length();
  for (int64_t a = n[0] > 1 ? -1 : 0; a <= (n[0] > 1 ? 1 : 0); ++a) {
    for (int64_t b = n[1] > 1 ? -1 : 0; b <= (n[1] > 1 ? 1 : 0); ++b) {
      rows_[n_rows_++] = a * static_cast<int64_t>(cuts_[0].stride) + b * static_cast<int64_t>(cuts_[1].stride) -
                         static_cast<int64_t>(kNarrow);
    }
  }
}

void BoxOrder::sort(std::span<const uint64_t> numbers, uint64_t n_numbers, const threads::ChunkedLoops& loops) {
  places_.resize(numbers.size());
  is_dense_ = n_numbers <= 4096 + 4 * numbers.size();
  if (is_dense_) {
    count(numbers, n_numbers, loops);
  } else {
    compare(numbers);
  }
}

void BoxOrder::count(std::span<const uint64_t> numbers, uint64_t n_numbers, const threads::ChunkedLoops& loops) {
  next_.resize(loops.n_chunks() * n_numbers);
  const auto next = [&](size_t chunk) { return next_.data() + chunk * n_numbers; };
  loops.for_each(numbers.size(), [&](size_t chunk, size_t first, size_t last) {
    uint32_t* const counts = next(chunk);
    std::fill_n(counts, n_numbers, 0);
    for (size_t thing = first; thing < last; ++thing) ++counts[numbers[thing]];
  });
  firsts_.resize(n_numbers + 1);
  uint32_t place = 0;
  for (size_t number = 0; number < n_numbers; ++number) {
    firsts_[number] = place;
    for (size_t chunk = 0; chunk < loops.n_chunks(); ++chunk) place += std::exchange(next(chunk)[number], place);
  }
  firsts_[n_numbers] = place;
  loops.for_each(numbers.size(), [&](size_t chunk, size_t first, size_t last) {
    uint32_t* const free = next(chunk);
    for (size_t thing = first; thing < last; ++thing) places_[thing] = free[numbers[thing]]++;
  });
}

void BoxOrder::compare(std::span<const uint64_t> numbers) {
  in_order_.resize(numbers.size());
  for (uint32_t thing = 0; thing < numbers.size(); ++thing) in_order_[thing] = {numbers[thing], thing};
  std::ranges::sort(in_order_);
  for (uint32_t place = 0; place < in_order_.size(); ++place) places_[in_order_[place].second] = place;
}

size_t BoxOrder::search(uint64_t number) const {
  const auto first = std::ranges::lower_bound(in_order_, number, {}, &std::pair<uint64_t, uint32_t>::first);
  return static_cast<size_t>(first - in_order_.begin());
}

}  // namespace atompack::physics
