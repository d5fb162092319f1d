// The bytes of an input as choices of what to do.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::fuzz {

// One after the other, then zeros.
class Choices {
 public:
  explicit Choices(Bytes input) : input_(input) {}

  bool left() const { return at_ < input_.size(); }
  uint8_t byte() { return left() ? static_cast<uint8_t>(input_[at_++]) : 0; }
  uint8_t below(uint8_t end) { return static_cast<uint8_t>(byte() % end); }

 private:
  Bytes input_;
  size_t at_ = 0;
};

}  // namespace atompack::fuzz
