#include "formats/array_file/write/updated_statistics.h"

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <unordered_set>

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

// Arrays in the layer with this number and in later ones; all arrays if there is no such layer.
std::vector<ChangedArray> changed_since(const Layers& layers, const std::vector<LayerFile>& present, uint32_t number) {
  const bool is_there = std::ranges::find(present, number, &LayerFile::number) != present.end();
  std::vector<ChangedArray> changed;
  std::unordered_set<std::string_view> found;
  for (uint32_t i = 0; i < layers.n_layers(); ++i) {
    if (is_there && present[i].number < number) continue;
    const Footer& footer = layers.layer(i).footer();
    for (uint64_t array = 0; array < footer.n_arrays(); ++array) {
      const std::string_view name = footer.array(array).name;
      if (found.insert(name).second) changed.push_back({std::string(name), std::nullopt});
    }
  }
  return changed;
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

void renew_statistics(const std::string& base_path, uint32_t number, uint64_t max_metadata_bytes,
                      io::FileSystem& files) {
  const std::string path = statistics_path(base_path);
  try {
    const std::vector<LayerFile> present = layer_files(base_path);
    const Reader reader(present, max_metadata_bytes, Reading::by_pread);
    StatisticsList list = list_statistics(base_path);
    update_statistics(reader, changed_since(reader.layers(), present, number), list);
    io::replace_file(files, path, encode_statistics(list));
  } catch (const DataError&) {  // the next read of the values reports the error
    files.remove(path);
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    files.remove(path);
  }
}

}  // namespace atompack::array_file
