// Examples by number, as values: what the collation of examples reads, whatever the format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/value.h"

namespace atompack {

// Values, and what keeps them alive.
struct Examples {
  std::vector<Value> values;
  std::vector<std::shared_ptr<const void>> owners;
};

class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual int64_t size() const = 0;
  // In this order, repeats allowed; all numbers are in range. Thread-safe. Throws what reading throws.
  virtual Examples read(std::span<const int64_t> indices) const = 0;
};

}  // namespace atompack
