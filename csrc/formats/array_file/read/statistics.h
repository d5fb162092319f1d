// Statistics file STEM.stats of an array file: rewritten by each flush, and not needed to read the data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/layer/strings.h"
#include "formats/array_file/write/definition.h"
#include "io/open_file.h"

namespace atompack::array_file {

// Strings and binary values are both byte strings.
using Extreme = std::variant<int64_t, uint64_t, double, std::string, Timestamp>;

struct ArrayStatistics {
  std::optional<Extreme> min, max;  // of the values that differ from the fill value
  uint64_t n_null = 0;              // elements that equal the fill value or were never written
  uint64_t n_rows = 0;
};

// By the name of the array.
using Statistics = std::map<std::string, ArrayStatistics, std::less<>>;
// In the order of the file.
using StatisticsList = std::vector<std::pair<std::string, ArrayStatistics>>;

// Statistics of a record in an archive, checked for statistics_at().
void check_statistics(ArchiveCheck& check, uint64_t at);
std::pair<std::string, ArrayStatistics> statistics_at(Bytes archive, uint64_t at);

// Positions of the targets of a record of statistics.
struct StatisticsTargets {
  uint64_t name = 0, min = 0, max = 0;
};

StatisticsTargets put_targets(ArchiveWriter& archive, std::string_view name, const ArrayStatistics& statistics);
void put_statistics(ArchiveWriter& archive, std::string_view name, const ArrayStatistics& statistics,
                    const StatisticsTargets& at);

// Includes deleted arrays. Throws CorruptFileError.
StatisticsList parse_statistics(Bytes file);
// Encodes a whole file.
std::vector<std::byte> encode_statistics(const StatisticsList& statistics);

// Path of the statistics of the array file with this base.
std::string statistics_path(const std::string& base_path);
// Returns an empty list if the file is missing or damaged, since it can be derived from the data. Throws IoError.
StatisticsList list_statistics(const io::Location& base);
Statistics read_statistics(const io::Location& base);

// Statistics of one array, computed chunk by chunk.
class Summary {
 public:
  Summary(Type type, const std::optional<OwnedFill>& fill);

  // Adds one chunk of this many elements. Throws CorruptFileError if it has a different size.
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
  // For numbers: as keys that sort like the values; those of uint64 wrap.
  int64_t min_ = 0, max_ = 0;
  std::string min_string_, max_string_;
};

}  // namespace atompack::array_file
