// Strings numbered in order of first appearance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atompack::atlas_store {

// All characters are in one buffer, so that tens of thousands of names do not need as many allocations. Const methods
// are thread-safe.
class NameTable {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // Valid until the next add().
  std::string_view operator[](uint32_t number) const;
  std::optional<uint32_t> find(std::string_view name) const;
  // Returns the name's number, a new one if needed. Throws FieldError when 4 GiB are full.
  uint32_t add(std::string_view name);

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;  // counted from one; 0: free
  };

  // The slot that holds the name, or the free slot for it.
  size_t slot_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::string characters_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
};

}  // namespace atompack::atlas_store
