// Memo of a pickle: values stored under numbers.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/value.h"

namespace atompack::pickle {

// Python counts the numbers up from 0, and those are stored in a vector; any other number goes into a map, so that a
// large number costs no more than a small one.
class Memo {
 public:
  void clear() {
    row_.clear();
    others_.clear();
  }

  void put_next(const Cell& cell) { put(row_.size() + others_.size(), cell); }

  void put(uint64_t number, const Cell& cell) {
    if (number < row_.size()) {
      row_[number] = cell;
    } else if (number == row_.size()) {
      row_.push_back(cell);
      if (!others_.empty()) [[unlikely]] {
        others_.erase(number);
      }
    } else {
      others_.insert_or_assign(number, cell);
    }
  }

  // Returns nullptr if nothing was stored under the number.
  const Cell* get(uint64_t number) const {
    if (number < row_.size()) return &row_[number];
    const auto found = others_.find(number);
    return found == others_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<Cell> row_;
  std::unordered_map<uint64_t, Cell> others_;
};

}  // namespace atompack::pickle
