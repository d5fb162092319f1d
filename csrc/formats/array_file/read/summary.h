// Statistics of one array, computed chunk by chunk.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "formats/array_file/layer/strings.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/definition.h"

namespace atompack::array_file {

class Summary {
 public:
  Summary(Type type, const std::optional<OwnedFill>& fill);

  // Adds one chunk of this many elements. Throws CorruptFileError if it has another size.
  void add(Bytes chunk, uint64_t n_elements);

  ArrayStatistics statistics(uint64_t n_rows) const;

 private:
  template <typename T>
  void add_items(Bytes values);
  void add_numbers(Bytes values);
  void add_strings(const Strings& strings, uint64_t count);
  std::optional<Extreme> extreme(int64_t key, const std::string& text) const;

  Type type_;
  bool has_fill_;
  std::array<std::byte, 8> fill_item_;
  std::string fill_string_;
  uint64_t n_values_ = 0;  // that differ from the fill value
  // Of numbers, as keys that sort like the values; those of uint64 wrap.
  int64_t min_ = 0, max_ = 0;
  std::string min_string_, max_string_;
};

}  // namespace atompack::array_file
