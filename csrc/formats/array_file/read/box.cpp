#include "formats/array_file/read/box.h"

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

}  // namespace atompack::array_file
