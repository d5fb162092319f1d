// Items of a source that belong to a dataset, and their numbers in the source.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace atompack::plan {

// All items, or those of a subset, whose numbers the caller keeps alive. `item` is the name of an item in errors, which
// are std::out_of_range.
class SubsetView {
 public:
  SubsetView(int64_t size, std::string item) : size_(size), item_(std::move(item)) {}
  SubsetView(std::span<const int64_t> subset, std::string item)
      : size_(std::ssize(subset)), numbers_(subset.data()), item_(std::move(item)) {}

  int64_t size() const { return size_; }

  // Returns the number of the item at an index; negative ones count from the end.
  int64_t number(int64_t index) const {
    if (index < -size_ || index >= size_) refuse(std::to_string(index));
    return number_at(index < 0 ? index + size_ : index);
  }
  template <std::integral Integer>
  void append(std::span<const Integer> indices, std::vector<int64_t>& numbers) const {
    numbers.reserve(numbers.size() + indices.size());
    for (const Integer index : indices) {
      if (!std::in_range<int64_t>(index)) refuse(std::to_string(index));
      numbers.push_back(number(static_cast<int64_t>(index)));
    }
  }

  // A mask has one bool for each item.
  void append_masked(std::span<const bool> mask, std::vector<int64_t>& numbers) const {
    check_mask(std::ssize(mask));
    for (int64_t i = 0; i < size_; ++i) {
      if (mask[static_cast<size_t>(i)]) numbers.push_back(number_at(i));
    }
  }
  void check_mask(int64_t length) const {
    if (length == size_) return;
    throw std::out_of_range(
        cat("indices: expected a mask of ", size_, " bools, one for each ", item_, ", got ", length));
  }

  // `index` in words.
  [[noreturn]] void refuse(const std::string& index) const {
    throw std::out_of_range(cat(item_, " ", index, " is out of range for a dataset of ", size_));
  }

 private:
  int64_t number_at(int64_t place) const { return numbers_ == nullptr ? place : numbers_[place]; }

  int64_t size_;
  const int64_t* numbers_ = nullptr;
  std::string item_;
};

}  // namespace atompack::plan
