#include "formats/atlas_store/flush/intent.h"

#include <limits>

#include "base/error.h"
#include "codec/sha256.h"
#include "formats/atlas_store/metadata/schema_decode.h"
#include "serial/json/reader.h"
#include "serial/json/writer.h"

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

}  // namespace atompack::atlas_store
