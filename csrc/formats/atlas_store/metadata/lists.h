// Many short lists in one vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace atompack::atlas_store {

// A list that grows but is not last moves to the end of the vector; the gaps are removed when they outweigh what is in
// use. Const methods are thread-safe.
template <typename T>
class Lists {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ranges_.size()); }
  // Valid until the next change.
  std::span<const T> operator[](uint32_t list) const { return {items_.data() + ranges_[list].begin, ranges_[list].n}; }
  std::span<T> operator[](uint32_t list) { return {items_.data() + ranges_[list].begin, ranges_[list].n}; }

  void add_list() { ranges_.push_back({items_.size(), 0}); }

  void append(uint32_t list, const T& item) {
    Range& range = ranges_[list];
    if (range.begin + range.n != items_.size()) move_to_end(range);
    items_.push_back(item);
    ++range.n;
  }

  // Later items move up.
  void erase(uint32_t list, size_t index) {
    Range& range = ranges_[list];
    std::move(items_.begin() + range.begin + index + 1, items_.begin() + range.begin + range.n,
              items_.begin() + range.begin + index);
    --range.n;
    ++n_unused_;
  }

  void clear(uint32_t list) {
    n_unused_ += ranges_[list].n;
    ranges_[list].n = 0;
  }

 private:
  struct Range {
    size_t begin = 0, n = 0;
  };

  void move_to_end(Range& range) {
    if (n_unused_ > items_.size() / 2) compact();
    n_unused_ += range.n;
    items_.reserve(items_.size() + range.n + 1);
    const size_t begin = items_.size();
    items_.insert(items_.end(), items_.begin() + range.begin, items_.begin() + range.begin + range.n);
    range.begin = begin;
  }

  void compact() {
    std::vector<T> items;
    items.reserve(items_.size() - n_unused_);
    for (Range& range : ranges_) {
      const size_t begin = items.size();
      items.insert(items.end(), items_.begin() + range.begin, items_.begin() + range.begin + range.n);
      range.begin = begin;
    }
    items_ = std::move(items);
    n_unused_ = 0;
  }

  std::vector<T> items_;
  std::vector<Range> ranges_;
  size_t n_unused_ = 0;
};

}  // namespace atompack::atlas_store
