// Shape of one value, stored inline: one is made for every value read, so it must not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace atompack {

class Shape {
 public:
  // The maximum rank of a tensor less one batch dimension (64 in NumPy and torch).
  static constexpr int kMaxRank = 62;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    std::ranges::copy(dims, dims_.begin());
  }

  // Copies only the dimensions in use.
  Shape(const Shape& other) : rank_(other.rank_) { std::copy_n(other.dims_.begin(), rank_, dims_.begin()); }
  Shape& operator=(const Shape& other) {
    rank_ = other.rank_;
    std::copy_n(other.dims_.begin(), rank_, dims_.begin());
    return *this;
  }

  void push_back(int64_t dim) { dims_[static_cast<size_t>(rank_++)] = dim; }
  int rank() const { return rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  // Product of the dimensions. Requires that it does not overflow.
  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t dim : dims()) product *= dim;
    return product;
  }

  bool operator==(const Shape& other) const { return std::ranges::equal(dims(), other.dims()); }

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_;  // only the first rank_ are set
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape.dims()[static_cast<size_t>(i)];
  return out << (shape.rank() == 1 ? ",)" : ")");
}

}  // namespace atompack
