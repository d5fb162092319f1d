#include "formats/array_file/read/array.h"

#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "formats/array_file/layer/number_type.h"

namespace atompack::array_file {

uint64_t Box::n_elements() const {
  uint64_t n = 1;
  for (const uint64_t count : this->count) n *= count;
  return n;
}

bool contains(const Box& box, const std::vector<uint64_t>& at) {
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < box.start[i] || at[i] - box.start[i] >= box.count[i]) return false;
  }
  return true;
}

Overlap::Overlap(const Box& a, const Box& b) {
  uint64_t a_stride = 1, b_stride = 1;
  bool whole_so_far = true;  // both boxes cover all inner axes, so that runs continue across this one
  for (size_t i = a.start.size(); i-- > 0;) {
    const uint64_t begin = std::max(a.start[i], b.start[i]);
    const uint64_t end = std::min(a.start[i] + a.count[i], b.start[i] + b.count[i]);
    if (begin >= end) {
      empty_ = true;
      return;
    }
    in_a_ += (begin - a.start[i]) * a_stride;
    in_b_ += (begin - b.start[i]) * b_stride;
    if (whole_so_far) {
      run_ *= end - begin;
    } else {
      axes_.insert(axes_.begin(), Axis{.count = end - begin, .a_stride = a_stride, .b_stride = b_stride});
    }
    whole_so_far = whole_so_far && end - begin == a.count[i] && end - begin == b.count[i];
    a_stride *= a.count[i];
    b_stride *= b.count[i];
  }
}

bool Overlap::advance() {
  for (size_t i = axes_.size(); i-- > 0;) {
    Axis& axis = axes_[i];
    in_a_ += axis.a_stride;
    in_b_ += axis.b_stride;
    if (++axis.position < axis.count) return true;
    in_a_ -= axis.a_stride * axis.count;
    in_b_ -= axis.b_stride * axis.count;
    axis.position = 0;
  }
  return false;
}

Grid::Grid(std::vector<uint64_t> shape, std::vector<uint64_t> chunk_shape)
    : shape_(std::move(shape)), chunk_shape_(std::move(chunk_shape)), cells_(shape_.size(), 0) {
  for (size_t i = 0; i < cells_.size(); ++i) {
    const uint64_t extent = chunk_shape_[i];
    if (extent > 0) cells_[i] = shape_[i] / extent + (shape_[i] % extent > 0 ? 1 : 0);
  }
}

uint64_t Grid::n_cells() const {
  uint64_t n = 1;
  for (const uint64_t cells : cells_) n *= cells;
  return n;
}

uint64_t Grid::number_of(const std::vector<uint64_t>& cell) const {
  uint64_t number = 0;
  for (size_t i = 0; i < cell.size(); ++i) number = number * cells_[i] + cell[i];
  return number;
}

std::vector<uint64_t> Grid::cell_at(uint64_t number) const {
  std::vector<uint64_t> cell(cells_.size());
  for (size_t i = cell.size(); i-- > 0;) {
    cell[i] = number % cells_[i];
    number /= cells_[i];
  }
  return cell;
}

Box Grid::box_of(const std::vector<uint64_t>& cell) const {
  Box box{cell, cell};
  for (size_t i = 0; i < cell.size(); ++i) {
    box.start[i] = cell[i] * chunk_shape_[i];
    box.count[i] = std::min(chunk_shape_[i], shape_[i] - box.start[i]);
  }
  return box;
}

std::optional<Box> Grid::cells_meeting(const Box& box) const {
  Box cells = box;
  for (size_t i = 0; i < box.start.size(); ++i) {
    const uint64_t extent = chunk_shape_[i];
    if (extent == 0) return std::nullopt;
    cells.start[i] = box.start[i] / extent;
    cells.count[i] = (box.start[i] + box.count[i] - 1) / extent - cells.start[i] + 1;
  }
  return cells;
}

bool advance(std::vector<uint64_t>& cell, const Box& cells) {
  for (size_t i = cell.size(); i-- > 0;) {
    if (++cell[i] < cells.start[i] + cells.count[i]) return true;
    cell[i] = cells.start[i];
  }
  return false;
}

namespace {

// True if a fill value of type F applies to elements of type T; other combinations leave them 0.
template <typename T, typename F>
constexpr bool kFills = std::is_same_v<F, int64_t> || std::is_same_v<F, uint64_t> ||
                        (std::is_floating_point_v<T> && std::is_same_v<F, double>);

template <typename T>
std::array<std::byte, 8> item_of(const Fill& fill) {
  std::array<std::byte, 8> item{};
  std::visit(
      [&]<typename F>(const F& value) {
        if constexpr (kFills<T, F>) store_le(item.data(), static_cast<T>(value));
      },
      fill);
  return item;
}

std::array<std::byte, 8> timestamp_item(const Fill& fill) {
  if (const auto* const timestamp = std::get_if<Timestamp>(&fill)) return item_of<int64_t>(timestamp->nanoseconds);
  return std::holds_alternative<int64_t>(fill) ? item_of<int64_t>(fill) : std::array<std::byte, 8>{};
}

}  // namespace

uint64_t Array::n_elements() const { return whole().n_elements(); }

const StoredChunk* Array::chunk_of(uint64_t cell) const {
  const auto found = std::ranges::lower_bound(chunks, cell, {}, &StoredChunk::cell);
  return found != chunks.end() && found->cell == cell ? &*found : nullptr;
}

void check_extent(const Array& array) {
  if (array.shape.size() > kMaxAxes) {
    throw UnsupportedFormatError(cat("axes: expected at most ", kMaxAxes, ", got ", array.shape.size()));
  }
  uint64_t bytes = std::max<uint64_t>(item_bytes(array.type), 1);
  for (const uint64_t extent : array.shape) {
    // Checked even if another axis is empty: no product of some of the axes overflows.
    if (extent > 0) bytes = checked_mul(bytes, extent, "bytes of the array");
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (bytes > kMax) throw_corrupt("bytes of the array: expected at most ", kMax, ", got ", bytes);
}

std::array<std::byte, 8> fill_item(Type type, const std::optional<Fill>& fill) {
  if (!fill) return {};
  if (type == Type::timestamp) return timestamp_item(*fill);
  return with_number_of(type, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return std::array<std::byte, 8>{};
    } else {
      return item_of<T>(*fill);
    }
  });
}

}  // namespace atompack::array_file
