#include "formats/atlas_store/flush.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "codec/checksums.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/write/updated_statistics.h"
#include "formats/atlas_store/metadata/document.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/locked_file.h"
#include "io/open_file.h"
#include "serial/json/reader.h"
#include "serial/json/writer.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {
namespace {

using serial::JsonReader;
using serial::JsonWriter;

constexpr size_t kChecksumDigits = 64;

void write_fingerprint(JsonWriter& out, const Fingerprint& fingerprint) {
  out.map(2);
  out.key("bytes");
  out.natural(fingerprint.bytes);
  out.key("sha256");
  out.text(fingerprint.sha256);
  out.end_map();
}

void write_layer(JsonWriter& out, const AddedLayer& layer) {
  out.map(3);
  out.key("variable");
  out.text(layer.variable);
  out.key("number");
  out.natural(layer.number);
  out.key("digest");
  out.text(layer.digest);
  out.end_map();
}

std::string text_of(JsonReader& in, std::string_view what) {
  expect(in, Token::text, what);
  return std::string(in.text());
}

Fingerprint read_fingerprint(JsonReader& in) {
  expect(in, Token::map, "fingerprint");
  Fingerprint fingerprint;
  std::string_view key;
  for (auto scope = in.enter_map(); in.next_key(scope, key);) {
    if (key == "bytes") {
      fingerprint.bytes = natural(in, "bytes");
    } else {
      fingerprint.sha256 = text_of(in, "sha256");
    }
  }
  return fingerprint;
}

AddedLayer read_layer(JsonReader& in) {
  expect(in, Token::map, "layer");
  AddedLayer layer;
  std::string_view key;
  for (auto scope = in.enter_map(); in.next_key(scope, key);) {
    if (key == "number") {
      const uint64_t number = natural(in, "number");
      if (number > std::numeric_limits<uint32_t>::max()) {
        throw CorruptFileError(cat("layer number: expected one of 32 bits, got ", number));
      }
      layer.number = static_cast<uint32_t>(number);
    } else if (key == "variable") {
      layer.variable = text_of(in, "variable");
    } else {
      layer.digest = text_of(in, "digest");
    }
  }
  return layer;
}

std::vector<AddedLayer> read_layers(JsonReader& in) {
  expect(in, Token::list, "layers");
  std::vector<AddedLayer> layers;
  for (auto scope = in.enter_list(); in.next_item(scope);) layers.push_back(read_layer(in));
  return layers;
}

// Requires a valid checksum: no other program writes this text.
Intent decode_text(Bytes text) {
  JsonReader in(text);
  expect(in, Token::map, "intent record");
  Intent intent;
  std::string_view key;
  for (auto scope = in.enter_map(); in.next_key(scope, key);) {
    if (key == "complete") {
      expect(in, Token::boolean, "complete");
      intent.complete = in.boolean();
    } else if (key == "before") {
      intent.before = read_fingerprint(in);
    } else if (key == "after") {
      intent.after = read_fingerprint(in);
    } else if (key == "layers") {
      intent.layers = read_layers(in);
    } else if (key == "id") {
      intent.id = text_of(in, "id");
    } else if (key == "stamp") {
      intent.stamp = text_of(in, "stamp");
    } else if (key == "renewed") {
      intent.renewed = read_fingerprint(in);
    } else {
      skip_value(in);
    }
  }
  in.finish();
  return intent;
}

}  // namespace

Fingerprint fingerprint_of(Bytes file) { return {file.size(), codec::sha256_hex(file)}; }

std::string encode_intent(const Intent& intent) {
  JsonWriter out;
  out.map(size_t{3} + (intent.before ? 1 : 0) + (intent.id.empty() ? 0 : 1) + (intent.renewed ? 2 : 0));
  out.key("complete");
  out.boolean(intent.complete);
  if (intent.before) {
    out.key("before");
    write_fingerprint(out, *intent.before);
  }
  out.key("after");
  write_fingerprint(out, intent.after);
  out.key("layers");
  out.list(intent.layers.size());
  for (const AddedLayer& layer : intent.layers) {
    out.item();
    write_layer(out, layer);
  }
  out.end_list();
  if (!intent.id.empty()) {
    out.key("id");
    out.text(intent.id);
  }
  if (intent.renewed) {
    out.key("stamp");
    out.text(intent.stamp);
    out.key("renewed");
    write_fingerprint(out, *intent.renewed);
  }
  out.end_map();
  const std::string text = out.take();
  return text + codec::sha256_hex(as_bytes(text));
}

Intent decode_intent(Bytes file) {
  const size_t bytes = file.size() - std::min(file.size(), kChecksumDigits);
  const Bytes text = file.first(bytes);
  if (as_text(file.subspan(bytes)) != codec::sha256_hex(text)) {
    throw CorruptFileError("intent record: expected its checksum at the end, got other bytes");
  }
  return decode_text(text);
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
