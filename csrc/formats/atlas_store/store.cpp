#include "formats/atlas_store/store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>
#include <type_traits>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {
namespace {

using array_file::ArrayDefinition;
using array_file::LayerFile;

// NaN is the same as itself here.
bool is_same_fill(const std::optional<array_file::OwnedFill>& one, const std::optional<array_file::OwnedFill>& other) {
  const auto* const number = one ? std::get_if<double>(&*one) : nullptr;
  const auto* const number2 = other ? std::get_if<double>(&*other) : nullptr;
  if (number == nullptr || number2 == nullptr) return one == other;
  return std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(*number2);
}

bool has_same_layout(const ArrayDefinition& one, const ArrayDefinition& other) {
  return one.type == other.type && one.shape == other.shape && one.chunk_shape == other.chunk_shape &&
         one.dimension_names == other.dimension_names && one.codecs == other.codecs &&
         is_same_fill(one.fill, other.fill);
}

std::vector<LayerFile> layers_in(const io::Location& folder) {
  return if_present([&] { return array_file::existing_layers(folder / "data.af"); });
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
    std::error_code ignored;
    const std::filesystem::path path(store_.path());
    const bool is_file =
        store_.is_remote() ? path.filename() == kContainerName : std::filesystem::is_regular_file(path, ignored);
    const std::optional<io::Location> container = is_file ? find_container(store_) : std::nullopt;
    if (container) return take_collection(*container);
    Snapshot snapshot;
    const auto find_record = [&] { snapshot.intent_file = io::find_file(store_.at(intent_path(store_.path()))); };
    // A remote file may still be on its way at that point; the bytes of a local one are read before the record.
    const bool is_remote = store_.is_remote();
    const std::optional<MetadataFile> file = is_remote ? read_metadata_file(store_, max_metadata_bytes_, find_record)
                                                       : read_metadata_file(store_, max_metadata_bytes_);
    if (const auto inside = file ? std::nullopt : find_container(store_)) return take_collection(*inside);
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
    in_file(store_.path(), [&] { list(snapshot, file); });
    if (!is_current(store_, snapshot, true)) return std::nullopt;
    return snapshot;
  }

 private:
  std::optional<Snapshot> take_collection(const io::Location& place) {
    Collection collection = read_collection(place, max_metadata_bytes_);
    Snapshot snapshot;
    snapshot.metadata = std::move(collection.metadata);
    snapshot.warnings = snapshot.metadata.warnings();
    snapshot.version.metadata = collection.container->file->version();
    if (collection.container->mask) snapshot.version.intent = collection.container->mask->version();
    snapshot.container = std::move(collection.container);
    return place.is_remote() || is_current(store_, snapshot) ? std::optional(std::move(snapshot)) : std::nullopt;
  }

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
bool is_current(const io::Location& store, const Snapshot& snapshot, bool is_opened) {
  if (snapshot.container) {
    const io::Location container = store.at(snapshot.container->path());
    return io::version_of(container) == snapshot.version.metadata &&
           io::version_of(mask_of(container)) == snapshot.version.intent;
  }
  const io::Location record = store.at(intent_path(store.path()));
  std::optional<std::vector<std::string>> names;
  if (store.is_remote()) {
    std::vector<std::string> candidates(kFileNames.begin(), kFileNames.end());
    candidates.emplace_back(kIntentName);
    if (is_opened) candidates.emplace_back(kContainerName);  // one more request where the store cannot be listed
    names = io::names_among(store, candidates);
  }
  const bool has_container =
      names ? std::ranges::find(*names, kContainerName) != names->end() : io::exists(store / kContainerName);
  if (has_container && snapshot.form) {
    throw UnsupportedFormatError(
        cat("expected a store or a collection, got both: ", path_of(store.path(), *snapshot.form), " and ",
            kContainerName, ", which can be opened by its own path"))
        .in_file(store.path());
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

template <typename T>
bool is_same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Bytes>) {
    return std::ranges::equal(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return a == b || (a != a && b != b);
  } else if constexpr (requires { typename T::allocator_type; }) {
    using Item = typename T::value_type;
    return std::ranges::equal(a, b, [](const Item& one, const Item& other) { return is_same(one, other); });
  } else {
    return a == b;
  }
}

bool is_same(const array_file::Attribute& a, const array_file::Attribute& b) {
  const auto same = [&]<typename T>(const T& value) {
    const auto* const other = std::get_if<T>(&b.value);
    return other != nullptr && is_same(value, *other);
  };
  return a.key == b.key && std::visit(same, a.value);
}

// True if the numbers of an attribute mean the same in all layers that have attributes.
bool is_certain(const array_file::Layers& layers, array_file::AttributePair pair,
                const array_file::Attribute& meaning) {
  for (uint32_t i = 0; i < layers.n_layers(); ++i) {
    const array_file::Footer& footer = layers.layer(i).footer();
    if (!footer.has_attribute_keys()) continue;
    const auto other = footer.find_attribute(pair);
    if (!other || !is_same(*other, meaning)) return false;
  }
  return true;
}

// Timestamps are stored as strings. True if the value has the type, to which it is then converted.
bool has_type(array_file::AttributeValue& value, const DataType& type) {
  const auto single = static_cast<size_t>(type.element);
  constexpr size_t kFirstList = 13;
  if (!type.lists.empty()) return value.index() == kFirstList + single;
  if (type.element != array_file::Type::timestamp) return value.index() == single;
  const auto* const text = std::get_if<std::string_view>(&value);
  const std::optional<Timestamp> at = text == nullptr ? std::nullopt : parse_timestamp(*text);
  if (at) value = *at;
  return at.has_value();
}

struct FoundAttribute {
  array_file::Attribute attribute;
  bool in_doubt = false;
};

std::optional<FoundAttribute> find_in(const array_file::Layers& layers, const array_file::Layers::SingleRecord& record,
                                      const DeclaredAttribute& declared, bool of_any_type) {
  const array_file::Footer& footer = layers.layer(record.layer).footer();
  for (const array_file::AttributePair pair : footer.attribute_pairs(record.record)) {
    std::optional<array_file::Attribute> found = of_any_type ? footer.attribute(pair) : footer.find_attribute(pair);
    if (!found || found->key != declared.key) continue;
    const bool in_doubt = footer.may_wrap(record.record) || !is_certain(layers, pair, *found);
    if (has_type(found->value, declared.type) || of_any_type) return FoundAttribute{std::move(*found), in_doubt};
  }
  return std::nullopt;
}

void check_footer_of(const array_file::Layer& layer, uint32_t expected) {
  const uint32_t got = layer.footer().version();
  if (got == expected) return;
  throw UnsupportedFormatError(cat("footer version: expected ", expected, " here, got ", got)).in_file(layer.path());
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
  for (const auto& segments : segments_) delete segments.load();
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

array_file::ArrayDefinition Store::definition(uint32_t variable, uint32_t dataset) const {
  array_file::ArrayDefinition found = array_file::definition_of(array(variable, dataset), layers(variable));
  const auto schema = metadata().schema_number(dataset, variable);
  if (schema && metadata().schema(*schema).is_complete) {
    found.dimension_names = metadata().schema(*schema).dimension_names;
  }
  return found;
}

std::vector<std::pair<array_file::ArrayDefinition, size_t>> Store::definitions(
    uint32_t variable, std::span<const uint32_t> datasets) const {
  std::vector<std::pair<array_file::ArrayDefinition, size_t>> runs;
  for (size_t i = 0; i < datasets.size(); ++i) {
    array_file::ArrayDefinition next = definition(variable, datasets[i]);
    if (runs.empty() || !has_same_layout(runs.back().first, next)) runs.emplace_back(std::move(next), i);
    runs.back().second = i + 1;
  }
  return runs;
}

std::optional<HeldArray> Store::find_held(std::string_view dataset, std::string_view array, size_t max_bytes) const {
  const auto variable = metadata().find_variable(array);
  const auto number = metadata().find_dataset(dataset);
  if (!variable || !number) return std::nullopt;
  std::optional<HeldArray> held = find_held(*variable, *number);
  if (held && held->values.size() > max_bytes) held.reset();
  return held;
}

int64_t Store::window(uint32_t number) const {
  const Variable* const variable = variables_[number];
  if (variable == nullptr) return 1;  // its files are not open yet
  const array_file::Layers& layers = variable->reader->layers();
  if (is_collection()) return layers.n_layers() == 0 ? 0 : layers.layer(0).file().window();
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
  if (!files.column->contains(dataset)) fail_no_array(variable, dataset);
  if (files.disagrees[dataset]) fail_disagreement(variable, dataset);
  return files.reader->array(metadata().dataset_name(dataset));
}

const array_file::Layers& Store::layers(uint32_t variable) const { return load_variable(variable).reader->layers(); }

void Store::fail_no_array(uint32_t variable, uint32_t dataset) const {
  throw FieldError(cat("dataset ", excerpt(metadata().dataset_name(dataset)), ": no array ",
                       excerpt(metadata().variable_name(variable))))
      .in_file(path());
}

array_file::Statistics Store::statistics(uint32_t variable) const {
  if (is_collection()) return collected_statistics(variable);
  // Outdated statistics stay outdated until the record of their flush is removed.
  const bool may_be_stale = snapshot_.variables[variable].statistics_path.empty();
  const bool is_stale = may_be_stale && io::exists(place_.at(intent_path(path())));
  array_file::Statistics found;
  if (!is_stale) found = array_file::read_statistics(place_.at(base_path(variable)));
  if (!is_current(place_, snapshot_)) fail_replaced();
  return found;
}

uint64_t Store::position(uint32_t variable, uint32_t dataset) const {
  const std::span<const Entry> entries = metadata().arrays(dataset);
  const auto found = std::ranges::find(entries, variable, &Entry::variable);
  if (found == entries.end()) fail_no_array(variable, dataset);
  return static_cast<uint64_t>(found - entries.begin());
}

array_file::Statistics Store::collected_statistics(uint32_t variable) const {
  array_file::Statistics found;
  for (uint32_t dataset = 0; dataset < metadata().n_numbers(); ++dataset) {
    if (!metadata().schema_number(dataset, variable)) continue;
    const std::string_view name = metadata().dataset_name(dataset);
    std::optional<array_file::ArrayStatistics> statistics;
    if (snapshot_.container->version == kByDataset) {
      statistics = snapshot_.container->statistics(dataset, position(variable, dataset));
    } else if (const auto single = layers(variable).find_single(name); single && single->record.statistics != 0) {
      const Bytes archive = layers(variable).layer(single->layer).footer().archive();
      statistics = array_file::statistics_at(archive, single->record.statistics).second;
    }
    if (statistics) found.emplace(name, std::move(*statistics));
  }
  return found;
}

AttributeList Store::attributes(uint32_t dataset) const {
  if (const DatasetSchema* const schema = metadata().dataset_schema(dataset)) {
    if (is_by_dataset()) return snapshot_.container->attributes(dataset, std::nullopt);
    if (schema->attributes.empty()) return {};
    return read_declared(*metadata().attribute_variable, dataset, schema->attributes);
  }
  AttributeList list;
  for (size_t i = 0; i < metadata().n_attributes(dataset); ++i) {
    const Attribute attribute = metadata().attribute(dataset, i);
    list.values.push_back({attribute.key, to_array_value(attribute.value)});
  }
  return list;
}

AttributeList Store::attributes(uint32_t variable, uint32_t dataset) const {
  const uint64_t at = position(variable, dataset);
  if (is_by_dataset()) return snapshot_.container->attributes(dataset, at);
  const DatasetSchema* const schema = metadata().dataset_schema(dataset);
  if (schema == nullptr) {
    AttributeList list;
    list.values = array(variable, dataset).attributes;
    return list;
  }
  const auto found =
      std::ranges::find_if(schema->array_attributes, [&](const auto& of_array) { return of_array.first == variable; });
  return found == schema->array_attributes.end() ? AttributeList() : read_declared(variable, dataset, found->second);
}

// Layers have dictionaries of their own, and the original copies an array's numbers into a newer layer as they are. The
// newest layer in which a number means the key, with a value of its type, counts; there is doubt where the same numbers
// mean something else in another layer.
AttributeList Store::read_declared(uint32_t variable, uint32_t dataset,
                                   const std::vector<DeclaredAttribute>& declared) const {
  AttributeList list;
  if (declared.empty()) return list;
  const array_file::Layers& layers = this->layers(variable);
  const auto history = layers.history(metadata().dataset_name(dataset));
  for (const DeclaredAttribute& attribute : declared) {
    std::optional<FoundAttribute> found;
    for (size_t i = 0; i < history.size() && !found; ++i) {
      found = array_file::in_array(layers.layer(history[i].layer).path(), history[i].record.name,
                                   [&] { return find_in(layers, history[i], attribute, is_collection()); });
    }
    if (found) list.values.push_back(std::move(found->attribute));
    if (!found || found->in_doubt) list.in_doubt.push_back(attribute.key);
  }
  return list;
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
    variable->disagrees[dataset] = !agrees(metadata().schema(schema), variable->column->layout(dataset));
    if (!variable->disagrees[dataset]) agreeing.insert(pair);
  }
  return variable;
}

// Compaction of a store changes its files but not their contents.
std::unique_ptr<const Reader> Store::open_reader(uint32_t variable, array_file::Reading reading) const {
  if (is_collection()) return open_segments(variable, reading);
  constexpr int kMaxTries = 20;
  std::vector<array_file::LayerFile> layers = snapshot_.variables[variable].layers;
  for (int i = 1;; ++i) {
    try {
      if (layers.empty()) throw IoError(ENOENT, std::strerror(ENOENT), base_path(variable));
      auto reader = std::make_unique<const Reader>(layers, max_metadata_bytes_, reading, [&] {
        if (!is_current(place_, snapshot_)) fail_replaced();
      });
      check_footers(reader->layers());
      return reader;
    } catch (const IoError& error) {
      if (error.code() != ENOENT || i == kMaxTries) throw;
    }
    const Snapshot now = read_snapshot(place_, max_metadata_bytes_);
    if (!(now.version == version())) fail_replaced();
    layers = now.variables[variable].layers;
  }
}

std::unique_ptr<const Reader> Store::open_segments(uint32_t variable, array_file::Reading reading) const {
  const Container& container = *snapshot_.container;
  array_file::Files files;
  files.sources = {container.bytes(reading)};
  if (container.version == kByDataset) {
    const std::vector<std::string_view> names = names_with(metadata(), variable);
    array_file::Layers layers(segments(reading), metadata().variable_name(variable), names);
    return std::make_unique<const Reader>(std::move(files), std::move(layers));
  }
  files.sources = {std::make_shared<const io::FileSection>(files.sources.front(), container.segments[variable])};
  if (place_.is_remote()) array_file::announce_end(*files.sources.front());
  array_file::Layers layers(array_file::read_layers(files, max_metadata_bytes_));
  check_footers(layers);
  return std::make_unique<const Reader>(std::move(files), std::move(layers));
}

const Store::Segments& Store::segments(array_file::Reading reading) const {
  std::atomic<const Segments*>& kept = segments_.at(static_cast<size_t>(reading));
  if (const Segments* const found = kept) return *found;
  const std::shared_ptr<const io::ByteSource> whole = snapshot_.container->bytes(reading);
  array_file::Files files;
  for (const io::ByteRange& range : snapshot_.container->segments) {
    files.sources.push_back(std::make_shared<const io::FileSection>(whole, range));
    if (place_.is_remote()) array_file::announce_end(*files.sources.back());
  }
  auto opened = std::make_unique<const Segments>(
      std::make_shared<const std::vector<array_file::Layer>>(array_file::read_layers(files, max_metadata_bytes_)));
  for (const array_file::Layer& layer : **opened) check_footer_of(layer, array_file::kFooterVersion5);
  const Segments* none = nullptr;
  return kept.compare_exchange_strong(none, opened.get()) ? *opened.release() : *none;
}

void Store::check_footers(const array_file::Layers& layers) const {
  const uint32_t of_store = metadata().version > 1 ? array_file::kFooterVersion5 : array_file::kFooterVersion;
  const uint32_t expected = is_collection() ? array_file::kFooterVersion6 : of_store;
  for (uint32_t i = 0; i < layers.n_layers(); ++i) check_footer_of(layers.layer(i), expected);
}

bool Store::agrees(const Schema& declared, const array_file::ColumnLayout& layout) const {
  if (declared.dtype.type() != layout.type) return false;
  if (!declared.is_complete) return true;
  if (declared.shape != layout.shape) return false;
  const bool has_grid = is_collection() && declared.chunk_shape.size() == declared.shape.size();
  return !has_grid || array_file::Grid(declared.shape, declared.chunk_shape) == layout.grid;
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
  const auto text = [&](array_file::Type type, const std::vector<uint64_t>& shape) {
    std::string dims;
    for (const uint64_t extent : shape) dims += cat(dims.empty() ? "" : ", ", extent);
    return declared.is_complete ? cat(name_of(type), " (", dims, ")") : std::string(name_of(type));
  };
  throw CorruptFileError(cat("array: expected ", text(declared.dtype.type(), declared.shape),
                             " as in the metadata, got ", text(layout.type, layout.shape)))
      .in_file(is_collection() ? snapshot_.container->path() : base_path(variable))
      .at_field(metadata().dataset_name(dataset));
}

Verification::Verification(std::shared_ptr<const Store> store)
    : store_(std::move(store)), readers_(store_->metadata().n_variables()) {}

// The store's own reader is not used, since it is a mapping.
void Verification::check(uint32_t variable, uint32_t dataset) {
  const Metadata& metadata = store_->metadata();
  const std::string_view name = metadata.dataset_name(dataset);
  const std::optional<uint32_t> schema = metadata.schema_number(dataset, variable);
  if (!schema) store_->fail_no_array(variable, dataset);
  auto& reader = readers_[variable];
  if (!reader) reader = store_->open_reader(variable, array_file::Reading::by_pread);
  array_file::in_array(reader->layers().layer(0).path(), name, [&] {
    if (!reader->contains(name)) throw CorruptFileError("no such array");
    const array_file::Array array = reader->array(name);
    const Schema& declared = metadata.schema(*schema);
    if (declared.dtype.type() != array.type || (declared.is_complete && declared.shape != array.shape)) {
      throw CorruptFileError("array: expected type and shape as in the metadata, got others");
    }
    array_file::verify_array(*reader, name, last_);
  });
}

}  // namespace atompack::atlas_store
