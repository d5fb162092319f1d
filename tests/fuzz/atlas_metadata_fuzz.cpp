#include <nlohmann/json.hpp>

#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/document.h"
#include "serial/json/reader.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using namespace atlas_store;

// Nothing for what is refused.
std::string again(Bytes document, bool is_json) {
  try {
    const Metadata metadata = is_json ? decode_json(document) : decode_msgpack(document);
    for (uint32_t i = 0; i < metadata.n_numbers(); ++i) {
      require(metadata.find_dataset(metadata.dataset_name(i)) == i, "a dataset is found by its name");
      for (const Entry& entry : metadata.arrays(i)) {
        require(metadata.schema_number(i, entry.variable) == entry.schema, "an array is found by its name");
      }
    }
    return is_json ? encode_json(metadata) : encode_msgpack(metadata);
  } catch (const DataError&) {
    return "";
  }
}

// Nothing where values lie too deep in each other: that is a limit of ours alone.
std::optional<bool> is_json(Bytes text) {
  try {
    serial::JsonReader in(text);
    skip_value(in);
    in.finish();
    return true;
  } catch (const CorruptFileError& error) {
    if (std::string_view(error.what()).find("values in each other") != std::string_view::npos) return std::nullopt;
    return false;
  }
}

void compare_verdicts(Bytes text) {
  const std::string_view characters = as_text(text);
  // The other one takes a mark in front, and takes NUL for the end.
  if (characters.starts_with("\xEF\xBB\xBF") || characters.find('\0') != std::string_view::npos) return;
  const std::optional<bool> verdict = is_json(text);
  require(!verdict || *verdict == nlohmann::json::accept(characters), "two readers agree on what is JSON");
}

}  // namespace

void read_atlas_metadata(Bytes input) {
  compare_verdicts(input);
  for (const bool json : {true, false}) {
    const std::string written = again(input, json);
    require(written.empty() || again(as_bytes(written), json) == written, "what was written is read again as it was");
  }
  try {
    decode_intent(input);
  } catch (const CorruptFileError&) {
    return;
  }
}

}  // namespace atompack::fuzz
