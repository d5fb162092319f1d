// Statistics after a flush, of which only those of some arrays change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/array_file/read/summary.h"

namespace atompack::array_file {

// An array that was written to.
struct ChangedArray {
  std::string name;
  // Of what the newest layer holds of it; absent: to be found by reading that.
  std::optional<Summary> newest;
};

// `list`, with the changed arrays as `reader` has them now: entries are replaced, or added at the end. Arrays without
// chunks have none, nor do those that cannot be read; those of deleted arrays stay.
void update_statistics(const Reader& reader, const std::vector<ChangedArray>& changed, StatisticsList& list);

}  // namespace atompack::array_file
