#include "formats/atlas_store/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "formats/atlas_store/flush/recovery.h"
#include "formats/atlas_store/metadata/names.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {
namespace {

using array_file::LayerFile;

std::vector<LayerFile> layers_in(const io::Location& folder) {
  try {
    return array_file::existing_layers(folder / "data.af");
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return {};
  }
}

std::vector<LayerFile> layers_of(const io::Location& store, std::string_view variable) {
  std::vector<LayerFile> layers = layers_in(store / folder_of_array(variable));
  if (layers.empty() || layers.front().number != 0) return {};
  if (is_safe_array_name(variable)) return layers;
  for (LayerFile& layer : layers_in(store / lost_folder_of_array(variable))) {
    if (layer.number != 0) layers.push_back(std::move(layer));
  }
  std::ranges::sort(layers, array_file::is_older);
  return layers;
}

class SnapshotAttempt {
 public:
  SnapshotAttempt(const io::Location& store, uint64_t max_metadata_bytes)
      : store_(store), max_metadata_bytes_(max_metadata_bytes) {}

  // Returns nullopt if another program wrote meanwhile. The order of the steps detects concurrent flushes (FORMAT.md,
  // "Reading beside a writer"): metadata, record, layers, and then the same files again in reverse order.
  std::optional<Snapshot> take() {
    Snapshot snapshot;
    const auto find_record = [&] { snapshot.intent_file = io::find_file(store_.at(intent_path(store_.path()))); };
    // A remote file may still be on its way then; the bytes of a local one are read before the record.
    const bool is_remote = store_.is_remote();
    const std::optional<MetadataFile> file = is_remote ? read_metadata_file(store_, max_metadata_bytes_, find_record)
                                                       : read_metadata_file(store_, max_metadata_bytes_);
    if (!is_remote) find_record();
    if (file) {
      snapshot.form = file->form;
      snapshot.metadata_file = file->held;
      snapshot.version.metadata = file->held->version();
      snapshot.metadata = decode_metadata(*file, max_metadata_bytes_);
    }
    snapshot.warnings = snapshot.metadata.warnings();
    // Like the original, which accepts any folder as a store.
    if (!file) snapshot.warnings.push_back(cat(store_.path(), ": no metadata file in this folder, so no datasets"));
    try {
      list(snapshot, file);
    } catch (DataError& error) {
      error.in_file(store_.path());
      throw;
    }
    if (!is_current(store_, snapshot)) return std::nullopt;
    return snapshot;
  }

 private:
  void list(Snapshot& snapshot, const std::optional<MetadataFile>& file) {
    const std::optional<Intent> intent = read_intent(snapshot.intent_file.get(), snapshot.warnings);
    const bool is_kept = intent && outcome_of(*intent, file) == Outcome::kept;
    if (snapshot.intent_file && (!is_kept || store_.is_remote()))
      snapshot.version.intent = snapshot.intent_file->version();
    snapshot.variables.resize(snapshot.metadata.n_variables());
    parallel_for_each(snapshot.variables.size(), store_.is_remote() ? kRemoteThreads : 1, [&](size_t i) {
      const std::string_view name = snapshot.metadata.variable_name(static_cast<uint32_t>(i));
      VariableFiles& files = snapshot.variables[i];
      files.layers = layers_of(store_, name);
      const bool stale =
          intent && std::ranges::find(intent->layers, name, &AddedLayer::variable) != intent->layers.end();
      if (!stale) files.statistics_path = cat(store_.path(), '/', folder_of_array(name), "/data.stats");
    });
    // After the layers were listed: before that, some of the flush's layers might not have been published yet.
    if (!intent) return;
    const std::vector<std::string> rolled_back = layers_rolled_back(store_, *intent, file);
    for (VariableFiles& files : snapshot.variables) {
      std::erase_if(files.layers, [&](const LayerFile& layer) { return contains(rolled_back, layer.path()); });
    }
  }

  static bool contains(const std::vector<std::string>& paths, const std::string& path) {
    return std::ranges::find(paths, path) != paths.end();
  }

  static constexpr unsigned kRemoteThreads = 16;  // that wait for requests to a remote store

  const io::Location& store_;
  uint64_t max_metadata_bytes_;
};

}  // namespace

// The record is checked first: the metadata is replaced before the record is removed. Of a remote store one listing
// shows at once whether there is a record, and which metadata file counts.
bool is_current(const io::Location& store, const Snapshot& snapshot) {
  const io::Location record = store.at(intent_path(store.path()));
  std::optional<std::vector<std::string>> names;
  if (store.is_remote()) {
    std::vector<std::string> candidates(kFileNames.begin(), kFileNames.end());
    candidates.emplace_back(kIntentName);
    names = io::names_among(store, candidates);
  }
  const bool may_have_record = !names || std::ranges::find(*names, kIntentName) != names->end();
  const std::optional<io::FileVersion> intent = may_have_record ? io::version_of(record) : std::nullopt;
  if (intent && !(snapshot.intent_file && *intent == snapshot.intent_file->version())) return false;
  if (!intent && snapshot.version.intent) return false;
  return (names ? metadata_version(store, *names) : metadata_version(store)) == snapshot.version.metadata;
}

Snapshot read_snapshot(const io::Location& store, uint64_t max_metadata_bytes) {
  constexpr int kMaxLooks = 20;
  for (int i = 0; i < kMaxLooks; ++i) {
    if (std::optional<Snapshot> snapshot = SnapshotAttempt(store, max_metadata_bytes).take())
      return std::move(*snapshot);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
  throw IoError(EAGAIN, "the store changes faster than it can be opened", store.path());
}

}  // namespace atompack::atlas_store
