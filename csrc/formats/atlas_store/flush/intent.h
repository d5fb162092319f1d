// The record that a flush leaves in the store while it makes its files visible (FORMAT.md, "Flush"): it makes one step
// of several renames.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// What a file is recognised by.
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
  bool complete = false;              // all is visible; only statistics may be older than the values
  std::optional<Fingerprint> before;  // of the metadata file; nothing: there was none
  Fingerprint after;
  std::vector<AddedLayer> layers;
};

inline std::string intent_path(const std::string& store) { return store + "/.atompack-intent"; }

std::string encode_intent(const Intent& intent);
// Throws CorruptFileError.
Intent decode_intent(Bytes file);

// What becomes of the layers that the record names.
enum class Outcome : uint8_t {
  kept,         // the flush is complete
  rolled_back,  // it is not, so they do not count
  unknown,      // somebody else has written since, and may have built on them: they count
};

Outcome outcome_of(const Intent& intent, const std::optional<MetadataFile>& metadata);

// Nothing where there is no record (a null `file`), and where it is damaged, which is said in `warnings`.
std::optional<Intent> read_intent(const io::HeldFile* file, std::vector<std::string>& warnings);

}  // namespace atompack::atlas_store
