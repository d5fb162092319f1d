// Interface through which a format hands examples to `collate`: values by index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/value.h"

namespace atompack {

// Values and the owner of their memory.
struct Examples {
  std::vector<Value> values;
  std::vector<std::shared_ptr<const void>> owners;
};

class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual int64_t size() const = 0;

  // Reading ahead: the number of examples to announce before they are read; 0 if all is in memory, 1 if that is not
  // known yet.
  virtual int64_t window() const { return 0; }
  // Starts fetching examples that will be read soon. May wait for the index, not for examples.
  virtual void announce(std::span<const int64_t>) const {}

  // Reads examples in this order, repeats allowed; all indices are in range. Thread-safe.
  virtual Examples read(std::span<const int64_t> indices) const = 0;
};

}  // namespace atompack
