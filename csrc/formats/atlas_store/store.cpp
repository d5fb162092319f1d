#include "formats/atlas_store/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/metadata.h"
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

  // Returns nullopt if another program wrote in the meantime. The order of the steps detects concurrent flushes
  // (FORMAT.md, "Reading next to a writer"): metadata, record, layers, and then the same files again in reverse order.
  std::optional<Snapshot> take() {
    Snapshot snapshot;
    const auto find_record = [&] { snapshot.intent_file = io::find_file(store_.at(intent_path(store_.path()))); };
    // A remote file may still be on its way at that point; the bytes of a local one are read before the record.
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
    threads::parallel_for_each(snapshot.variables.size(), store_.is_remote() ? kRemoteThreads : 1, [&](size_t i) {
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

// The record is checked first: the metadata is replaced before the record is removed. For a remote store, one listing
// shows immediately whether there is a record, and which metadata file counts.
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

namespace {

using array_file::Array;
using array_file::Column;
using array_file::Reader;

// Names of the datasets that have the variable.
std::vector<std::string_view> names_with(const Metadata& metadata, uint32_t variable) {
  std::vector<std::string_view> names(metadata.n_numbers());
  for (uint32_t dataset = 0; dataset < names.size(); ++dataset) {
    if (metadata.schema_number(dataset, variable)) names[dataset] = metadata.dataset_name(dataset);
  }
  return names;
}

}  // namespace

// The files of one variable, and the location of each dataset's array in them.
struct Store::Variable {
  std::unique_ptr<const Reader> reader;
  std::shared_ptr<const Column> column;
  std::vector<bool> disagrees;  // by dataset: metadata and file describe it differently
};

Store::Store(io::Location place, const std::optional<Version>& expected, uint64_t max_metadata_bytes,
             std::shared_ptr<array_file::BlockCache> cache)
    : place_(std::move(place)),
      max_metadata_bytes_(max_metadata_bytes),
      cache_(std::move(cache)),
      snapshot_(read_snapshot(place_, max_metadata_bytes)),
      variables_(metadata().n_variables()) {
  if (expected && !(*expected == version())) fail_replaced();
}

Store::~Store() {
  for (const auto& variable : variables_) delete variable.load();
}

std::string_view Store::dataset_name(int64_t dataset) const {
  return metadata().dataset_name(static_cast<uint32_t>(dataset));
}

int64_t Store::find_dataset(std::string_view name) const {
  const auto dataset = metadata().find_dataset(name);
  if (!dataset) throw FieldError(cat("no dataset ", excerpt(name))).in_file(path());
  return *dataset;
}

std::unique_ptr<ColumnSlice> Store::slice(uint32_t number, std::span<const int64_t> datasets,
                                          const SliceRequest& request) const {
  const Variable& variable = load_variable(number);
  for (const int64_t dataset : datasets) {
    if (variable.disagrees[static_cast<size_t>(dataset)]) fail_disagreement(number, static_cast<uint32_t>(dataset));
  }
  variable.reader->check_not_shrunk();
  return std::make_unique<array_file::Slice>(variable.column, datasets, request, *cache_);
}

std::optional<HeldArray> Store::find_held(uint32_t number, int64_t dataset) const {
  const Variable* const variable = variables_[number];
  const auto row = static_cast<size_t>(dataset);
  if (variable == nullptr || variable->disagrees[row]) return std::nullopt;
  return array_file::find_held(*variable->column, row, *cache_);
}

int64_t Store::window(uint32_t number) const {
  const Variable* const variable = variables_[number];
  if (variable == nullptr) return 1;  // its files are not open yet
  const array_file::Layers& layers = variable->reader->layers();
  int64_t window = 0;
  for (uint32_t i = 0; i < layers.n_layers(); ++i) window = std::max(window, layers.layer(i).file().window());
  return window;
}

ColumnType Store::type_of(uint32_t variable) const {
  for (uint32_t dataset = 0; dataset < metadata().n_numbers(); ++dataset) {
    if (const auto schema = metadata().schema_number(dataset, variable)) {
      return array_file::column_type(metadata().schema(*schema).dtype.type());
    }
  }
  return {};
}

Array Store::array(uint32_t variable, uint32_t dataset) const {
  const Variable& files = load_variable(variable);
  if (!files.column->contains(dataset))
    throw FieldError(cat("dataset ", excerpt(metadata().dataset_name(dataset)), ": no array ",
                         excerpt(metadata().variable_name(variable))))
        .in_file(path());
  if (files.disagrees[dataset]) fail_disagreement(variable, dataset);
  return files.reader->array(metadata().dataset_name(dataset));
}

const array_file::Layers& Store::layers(uint32_t variable) const { return load_variable(variable).reader->layers(); }

array_file::Statistics Store::statistics(uint32_t variable) const {
  // Outdated statistics stay outdated until the record of their flush is removed.
  const bool may_be_stale = snapshot_.variables[variable].statistics_path.empty();
  const bool is_stale = may_be_stale && io::exists(place_.at(intent_path(path())));
  array_file::Statistics found;
  if (!is_stale) found = array_file::read_statistics(place_.at(base_path(variable)));
  if (!is_current(place_, snapshot_)) fail_replaced();
  return found;
}

std::vector<int64_t> Store::blocks(uint32_t number, std::span<const int64_t> datasets) const {
  const Column& column = *load_variable(number).column;
  std::vector<int64_t> blocks;
  for (const int64_t dataset : datasets) {
    const auto row = static_cast<size_t>(dataset);
    const auto chunks = column.contains(row) ? column.chunks(row) : std::span<const array_file::ColumnChunk>();
    blocks.push_back(chunks.empty() ? -1 : int64_t{chunks[0].layer} << 32 | chunks[0].block);
  }
  return blocks;
}

std::string Store::base_path(uint32_t variable) const {
  return cat(path(), '/', folder_of_array(metadata().variable_name(variable)), "/data.af");
}

void Store::prepare(std::span<const uint32_t> variables) const {
  constexpr unsigned kThreads = 16;  // that wait for requests to a remote store
  if (!place_.is_remote()) return;
  threads::parallel_for_each(variables.size(), kThreads,
                             [&](size_t i) { static_cast<void>(load_variable(variables[i])); });
}

const Store::Variable& Store::load_variable(uint32_t variable) const {
  std::atomic<const Variable*>& kept = variables_[variable];
  if (const Variable* const found = kept) return *found;
  std::unique_ptr<const Variable> opened = open(variable);
  const Variable* none = nullptr;
  return kept.compare_exchange_strong(none, opened.get()) ? *opened.release() : *none;
}

std::unique_ptr<const Store::Variable> Store::open(uint32_t number) const {
  auto variable = std::make_unique<Variable>();
  variable->reader = open_reader(number, array_file::Reading::mapped);
  const std::vector<std::string_view> names = names_with(metadata(), number);
  variable->column = std::make_shared<const Column>(variable->reader->layers(), names);
  variable->disagrees.resize(names.size());
  std::set<std::pair<uint32_t, uint32_t>> agreeing;  // schema, layout
  for (uint32_t dataset = 0; dataset < names.size(); ++dataset) {
    if (!variable->column->is_readable(dataset)) continue;
    const uint32_t schema = *metadata().schema_number(dataset, number);
    const std::pair pair(schema, variable->column->layout_number(dataset));
    if (agreeing.contains(pair)) continue;
    const array_file::ColumnLayout& layout = variable->column->layout(dataset);
    const Schema& declared = metadata().schema(schema);
    variable->disagrees[dataset] = declared.dtype.type() != layout.type || declared.shape != layout.shape;
    if (!variable->disagrees[dataset]) agreeing.insert(pair);
  }
  return variable;
}

// Compaction of a store changes its files but not their contents.
std::unique_ptr<const Reader> Store::open_reader(uint32_t variable, array_file::Reading reading) const {
  constexpr int kMaxTries = 20;
  std::vector<array_file::LayerFile> layers = snapshot_.variables[variable].layers;
  for (int i = 1;; ++i) {
    try {
      if (layers.empty()) throw IoError(ENOENT, std::strerror(ENOENT), base_path(variable));
      return std::make_unique<const Reader>(layers, max_metadata_bytes_, reading, [&] {
        if (!is_current(place_, snapshot_)) fail_replaced();
      });
    } catch (const IoError& error) {
      if (error.code() != ENOENT || i == kMaxTries) throw;
    }
    const Snapshot now = read_snapshot(place_, max_metadata_bytes_);
    if (!(now.version == version())) fail_replaced();
    layers = now.variables[variable].layers;
  }
}

void Store::fail_replaced() const {
  if (place_.is_remote()) {
    throw IoError(ESTALE, "the store was written to since it was opened; refresh() opens its last flush", path());
  }
  throw FieldError("the store was written to since it was opened: open it again").in_file(path());
}

void Store::fail_disagreement(uint32_t variable, uint32_t dataset) const {
  const Schema& declared = metadata().schema(*metadata().schema_number(dataset, variable));
  const array_file::ColumnLayout& layout = load_variable(variable).column->layout(dataset);
  const auto text = [](array_file::Type type, const std::vector<uint64_t>& shape) {
    std::string dims;
    for (const uint64_t extent : shape) dims += cat(dims.empty() ? "" : ", ", extent);
    return cat(name_of(type), " (", dims, ")");
  };
  throw CorruptFileError(cat("array: expected ", text(declared.dtype.type(), declared.shape),
                             " as in the metadata, got ", text(layout.type, layout.shape)))
      .in_file(base_path(variable))
      .at_field(std::string(metadata().dataset_name(dataset)));
}

Verification::Verification(std::shared_ptr<const Store> store)
    : store_(std::move(store)), readers_(store_->metadata().n_variables()) {}

// The store's own reader is not used, since it is a mapping.
void Verification::check(uint32_t variable, uint32_t dataset) {
  const Metadata& metadata = store_->metadata();
  const std::string_view name = metadata.dataset_name(dataset);
  const std::optional<uint32_t> schema = metadata.schema_number(dataset, variable);
  if (!schema) {
    throw FieldError(cat("dataset ", excerpt(name), ": no array ", excerpt(metadata.variable_name(variable))))
        .in_file(store_->path());
  }
  auto& reader = readers_[variable];
  if (!reader) reader = store_->open_reader(variable, array_file::Reading::by_pread);
  try {
    if (!reader->contains(name)) throw CorruptFileError("no such array");
    const array_file::Array array = reader->array(name);
    const Schema& declared = metadata.schema(*schema);
    if (declared.dtype.type() != array.type || declared.shape != array.shape) {
      throw CorruptFileError("array: expected type and shape as in the metadata, got others");
    }
    array_file::verify_array(*reader, name, last_);
  } catch (DataError& error) {
    error.at_field(std::string(name));
    error.in_file(reader->layers().layer(0).path());
    throw;
  }
}

}  // namespace atompack::atlas_store
