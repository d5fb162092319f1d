#include "formats/atlas_store/flush/recovery.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/write/updated_statistics.h"
#include "formats/atlas_store/metadata/names.h"
#include "io/folder.h"
#include "io/locked_file.h"
#include "io/open_file.h"

namespace atompack::atlas_store {
namespace {

using array_file::LayerFile;

std::string added_path(const std::string& store, const AddedLayer& layer) {
  return array_file::sidecar_path(base_path(store, layer.variable), layer.number);
}

// Newer layers are not part of the flush: their writer saw the flush's layers as visible.
bool was_built_on(const io::Location& store, const AddedLayer& layer) {
  const std::vector<LayerFile> present = array_file::layer_files(store.at(base_path(store.path(), layer.variable)));
  return std::ranges::any_of(present, [&](const LayerFile& other) { return other.number > layer.number; });
}

enum class Presence : uint8_t { none, published, other };

// State of the path of a layer of the flush. `other`: another program has put a file there.
Presence presence_of(const io::Location& store, const AddedLayer& layer) {
  try {
    const auto file = io::open_file(store.at(added_path(store.path(), layer)));
    const bool same = array_file::layer_digest(*file) == layer.digest;
    return same ? Presence::published : Presence::other;
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return Presence::none;
  } catch (const CorruptFileError&) {
    // Damaged since: not identified by its digest, so it counts, and readers report the damage.
    return Presence::other;
  }
}

// An unpublished file is removed by its owner, which this becomes.
void discard_unpublished(const std::string& folder, io::FileSystem& files) {
  for (const std::string& name : io::unpublished_in(folder)) files.create(cat(folder, '/', name)).reset();
}

void apply_outcome(const std::string& store, const Intent& intent, uint64_t max_metadata_bytes, io::FileSystem& files) {
  const std::optional<MetadataFile> metadata = read_metadata_file(store);
  for (const std::string& path : layers_rolled_back(store, intent, metadata)) files.remove(path);
  const Outcome outcome = outcome_of(intent, metadata);
  // A reader that missed the record's lifetime learns from this that layers may have come and gone (FORMAT.md).
  if (outcome == Outcome::rolled_back && metadata) io::replace_file(files, metadata->path, metadata->bytes);
  if (outcome != Outcome::kept) return;
  for (const AddedLayer& layer : intent.layers) {
    array_file::renew_statistics(base_path(store, layer.variable), layer.number, max_metadata_bytes, files);
  }
}

}  // namespace

std::string base_path(const std::string& store, std::string_view variable) {
  return cat(store, '/', folder_of_array(variable), "/data.af");
}

std::vector<std::string> layers_rolled_back(const io::Location& store, const Intent& intent,
                                            const std::optional<MetadataFile>& metadata) {
  std::vector<std::string> paths;
  if (outcome_of(intent, metadata) != Outcome::rolled_back) return paths;
  for (const AddedLayer& layer : intent.layers) {
    const Presence presence = presence_of(store, layer);
    if (presence == Presence::other) continue;
    if (presence == Presence::published && was_built_on(store, layer)) return {};
    paths.push_back(added_path(store.path(), layer));
  }
  return paths;
}

std::vector<std::string> recover(const std::string& store, uint64_t max_metadata_bytes, io::FileSystem& files) {
  std::vector<std::string> warnings;
  const std::shared_ptr<const io::OpenFile> record = io::find_file(intent_path(store));
  if (const std::optional<Intent> intent = read_intent(record.get(), warnings)) {
    apply_outcome(store, *intent, max_metadata_bytes, files);
  }
  files.remove(intent_path(store));
  discard_unpublished(store, files);
  for (const std::string& folder : io::folders_in(store)) discard_unpublished(cat(store, '/', folder), files);
  return warnings;
}

}  // namespace atompack::atlas_store
