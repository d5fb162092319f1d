#include "formats/atlas_store/flush.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "codec/checksums.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/write/updated_statistics.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/locked_file.h"
#include "io/open_file.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kChecksumDigits = 64;
constexpr int kIndent = 2;

json as_json(const Fingerprint& fingerprint) { return {{"bytes", fingerprint.bytes}, {"sha256", fingerprint.sha256}}; }

std::optional<Fingerprint> fingerprint_in(const json& record, const char* key) {
  if (!record.contains(key)) return std::nullopt;
  return Fingerprint{record[key].at("bytes").get<uint64_t>(), record[key].at("sha256").get<std::string>()};
}

}  // namespace

Fingerprint fingerprint_of(Bytes file) { return {file.size(), codec::sha256_hex(file)}; }

std::string encode_intent(const Intent& intent) {
  json record{{"complete", intent.complete}};
  if (intent.before) record["before"] = as_json(*intent.before);
  record["after"] = as_json(intent.after);
  record["layers"] = json::array();
  for (const AddedLayer& layer : intent.layers) {
    record["layers"].push_back({{"variable", layer.variable}, {"number", layer.number}, {"digest", layer.digest}});
  }
  if (!intent.id.empty()) record["id"] = intent.id;
  if (intent.renewed) {
    record["stamp"] = intent.stamp;
    record["renewed"] = as_json(*intent.renewed);
  }
  const std::string text = record.dump(kIndent);
  return text + codec::sha256_hex(as_bytes(text));
}

// A valid checksum shows that the text was written here.
Intent decode_intent(Bytes file) {
  const size_t bytes = file.size() - std::min(file.size(), kChecksumDigits);
  const std::string_view text = as_text(file.first(bytes));
  if (as_text(file.subspan(bytes)) != codec::sha256_hex(as_bytes(text))) {
    throw CorruptFileError("intent record: expected its checksum at the end, got other bytes");
  }
  try {
    const json record = json::parse(text);
    Intent intent;
    intent.complete = record.at("complete").get<bool>();
    intent.before = fingerprint_in(record, "before");
    intent.after = fingerprint_in(record, "after").value_or(Fingerprint());
    for (const json& layer : record.at("layers")) {
      intent.layers.push_back({layer.at("variable").get<std::string>(), layer.at("number").get<uint32_t>(),
                               layer.at("digest").get<std::string>()});
    }
    intent.id = record.value("id", "");
    intent.stamp = record.value("stamp", "");
    intent.renewed = fingerprint_in(record, "renewed");
    return intent;
  } catch (const json::exception&) {
    throw CorruptFileError("intent record: expected those of a flush, got other values");
  }
}

std::optional<Intent> read_intent(const io::OpenFile* file, std::vector<std::string>& warnings) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
  if (file == nullptr) return std::nullopt;
  try {
    return decode_intent(io::read_whole(*file, kMaxBytes));
  } catch (const CorruptFileError& error) {
    warnings.push_back(cat(file->path(), ": ", error.what(), "; it is passed over"));
  }
  return std::nullopt;
}

Outcome outcome_of(const Intent& intent, const std::optional<MetadataFile>& metadata) {
  if (intent.complete) return Outcome::kept;
  std::optional<Fingerprint> now;
  if (metadata) now = fingerprint_of(metadata->bytes);
  // Unchanged metadata cannot tell; then `complete` decides.
  if (now == intent.before || (intent.renewed && now == intent.renewed)) return Outcome::rolled_back;
  return now == intent.after ? Outcome::kept : Outcome::unknown;
}

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

Flush::Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before, unsigned n_threads)
    : store_(std::move(store)), files_(files), form_(form), n_threads_(n_threads) {
  intent_.before = std::move(before);
}

void Flush::prepare(const std::vector<ChangedVariable>& variables, Bytes document) {
  intent_.layers.resize(variables.size());
  threads::parallel_for_each(variables.size(), n_threads_, [&](size_t i) {
    const auto& [variable, writer] = variables[i];
    writer->stage();
    intent_.layers[i] = {variable, writer->staged_number(), writer->staged_digest()};
  });
  for (const ChangedVariable& variable : variables) staged_.push_back({variable.writer});
  intent_.after = fingerprint_of(document);
  metadata_ = files_.create(path_of(store_, form_));
  metadata_->write_at(0, document);
  metadata_->sync();
}

void Flush::run() {
  if (!intent_written_) write_intent();
  publish();
  clean_up();
}

// New metadata alone takes one rename, which needs no record.
void Flush::write_intent() {
  if (!staged_.empty()) replace_file(files_, intent_path(store_), as_bytes(encode_intent(intent_)));
  intent_written_ = true;
}

// Metadata is published last, since it marks the flush as complete. If it did not change, the record marks it.
void Flush::publish() {
  threads::parallel_for_each(staged_.size(), n_threads_, [&](size_t i) {
    if (!staged_[i].published) staged_[i].writer->publish();
    staged_[i].published = true;
  });
  metadata_->publish(true);
  if (staged_.empty() || intent_.complete || intent_.before != intent_.after) return;
  Intent complete = intent_;
  complete.complete = true;
  replace_file(files_, intent_path(store_), as_bytes(encode_intent(complete)));
  intent_.complete = true;
}

void Flush::clean_up() {
  threads::parallel_for_each(staged_.size(), n_threads_, [&](size_t i) { staged_[i].writer->write_statistics(); });
  files_.remove(intent_path(store_));
  for (size_t i = 0; i < kFileNames.size(); ++i) {
    const std::string other = path_of(store_, static_cast<Form>(i));
    if (static_cast<Form>(i) != form_ && io::exists(other)) files_.remove(other);
  }
}

}  // namespace atompack::atlas_store
