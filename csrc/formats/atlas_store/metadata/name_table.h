// Texts numbered in the order in which they were first seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atompack::atlas_store {

// All characters lie in one buffer, so that ten thousands of names are no ten thousands of allocations. Const methods
// are thread-safe.
class NameTable {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // Valid until the next add().
  std::string_view operator[](uint32_t number) const;
  std::optional<uint32_t> find(std::string_view name) const;
  // Its number, a new one if it is not there yet. Throws FieldError when 4 GiB are full.
  uint32_t add(std::string_view name);

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;  // counted from one; 0: free
  };

  // The slot that holds the name, or that it would be put into.
  size_t slot_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::string characters_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
};

}  // namespace atompack::atlas_store
