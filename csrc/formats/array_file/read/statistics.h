// Statistics beside an array file, STEM.stats: made anew by each flush, and never needed to read the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

// Texts and binary values are strings of bytes.
using Extreme = std::variant<int64_t, uint64_t, double, std::string, Timestamp>;

struct ArrayStatistics {
  std::optional<Extreme> min, max;  // of the values that differ from the fill value
  uint64_t n_null = 0;              // elements that are the fill value, or were never written
  uint64_t n_rows = 0;
};

// By the name of the array.
using Statistics = std::map<std::string, ArrayStatistics, std::less<>>;
// In the order of the file.
using StatisticsList = std::vector<std::pair<std::string, ArrayStatistics>>;

// Also of arrays that were deleted since. Throws CorruptFileError.
StatisticsList parse_statistics(Bytes file);
// A whole file.
std::vector<std::byte> encode_statistics(const StatisticsList& statistics);

// Where those of the array file with this base lie.
std::string statistics_path(const std::string& base_path);
// Empty where there are none, and where they are damaged: they tell nothing that the data does not. Throws IoError.
StatisticsList list_statistics(const std::string& base_path);
Statistics read_statistics(const std::string& base_path);

}  // namespace atompack::array_file
