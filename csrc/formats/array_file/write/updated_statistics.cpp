#include "formats/array_file/write/updated_statistics.h"

#include <unordered_map>

namespace atompack::array_file {
namespace {

std::optional<ArrayStatistics> statistics_of(const Reader& reader, const ChangedArray& changed, DecodedBlock& last) {
  const Array array = reader.array(changed.name);
  if (array.chunks.empty()) return std::nullopt;
  const Grid grid = array.grid();
  Summary summary = changed.newest ? *changed.newest : Summary(array.type, to_owned(array.fill));
  for (const StoredChunk& chunk : array.chunks) {
    if (changed.newest && chunk.layer + 1 == reader.n_layers()) continue;
    summary.add(reader.read_chunk(chunk, last), grid.box_of(grid.cell_at(chunk.cell)).n_elements());
  }
  return summary.statistics(array.n_elements());
}

}  // namespace

void update_statistics(const Reader& reader, const std::vector<ChangedArray>& changed, StatisticsList& list) {
  std::unordered_map<std::string, std::optional<ArrayStatistics>> found;
  DecodedBlock last;
  for (const ChangedArray& array : changed) {
    if (!reader.contains(array.name)) continue;
    try {
      found[array.name] = statistics_of(reader, array, last);
    } catch (const CorruptFileError&) {
      found[array.name] = std::nullopt;  // an older chunk is damaged, which reading it reports
    }
  }
  StatisticsList updated;
  for (auto& [name, statistics] : list) {
    const auto at = found.find(name);
    if (at == found.end()) updated.emplace_back(std::move(name), std::move(statistics));
    if (at == found.end() || !at->second) continue;
    updated.emplace_back(std::move(name), std::move(*at->second));
    at->second.reset();
  }
  for (const ChangedArray& array : changed) {
    const auto at = found.find(array.name);
    if (at == found.end() || !at->second) continue;
    updated.emplace_back(array.name, std::move(*at->second));
    at->second.reset();
  }
  list = std::move(updated);
}

}  // namespace atompack::array_file
