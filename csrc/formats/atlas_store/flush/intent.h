// Intent record that a flush leaves in the store while it publishes its files (FORMAT.md, "Flush"): it makes several
// renames one atomic step.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// Identity of a file's content.
struct Fingerprint {
  uint64_t bytes = 0;
  std::string sha256;

  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint_of(Bytes file);

// A sidecar that the flush adds to a variable.
struct AddedLayer {
  std::string variable;
  uint32_t number = 0;
  std::string digest;  // array_file::layer_digest()
};

struct Intent {
  bool complete = false;              // everything is visible; only statistics may be older than the values
  std::optional<Fingerprint> before;  // of the metadata file; nullopt: there was none
  Fingerprint after;
  std::vector<AddedLayer> layers;

  // Only in remote stores, where records are replaced and never removed.
  std::string id = {};                      // different in every record
  std::string stamp = {};                   // of the metadata file that undoes an interrupted flush
  std::optional<Fingerprint> renewed = {};  // of that file, which counts like the one before
};

inline constexpr std::string_view kIntentName = ".atompack-intent";

inline std::string intent_path(const std::string& store) { return cat(store, '/', kIntentName); }

std::string encode_intent(const Intent& intent);
// Throws CorruptFileError.
Intent decode_intent(Bytes file);

// Fate of the layers that the record names.
enum class Outcome : uint8_t {
  kept,         // the flush is complete
  rolled_back,  // the flush is incomplete, so they are ignored
  unknown,      // another program has written since and may have built on them: they count
};

Outcome outcome_of(const Intent& intent, const std::optional<MetadataFile>& metadata);

// Returns nullopt without a record (null `file`), and with a damaged one, which adds to `warnings`.
std::optional<Intent> read_intent(const io::OpenFile* file, std::vector<std::string>& warnings);

}  // namespace atompack::atlas_store
