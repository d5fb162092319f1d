// Metadata file of a store, in one of its six forms.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/array_file/layer/footer.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "io/open_file.h"

namespace atompack::atlas_store {

// Hard limit of all readers, whatever their own limit is.
inline constexpr uint64_t kMaxStoredBytes = UINT32_MAX;

enum class Form : uint8_t { json, json_zst, json_lz4, msgpack, msgpack_zst, msgpack_lz4 };

constexpr Names<6> names_of(Form) {
  return {"metadata", {"json", "json.zst", "json.lz4", "msgpack", "msgpack.zst", "msgpack.lz4"}};
}

// If there are several, the first one counts.
inline constexpr std::array<std::string_view, 6> kFileNames{"atlas.json",    "atlas.json.zst",    "atlas.json.lz4",
                                                            "atlas.msgpack", "atlas.msgpack.zst", "atlas.msgpack.lz4"};

constexpr bool is_json(Form form) { return form <= Form::json_lz4; }

inline std::string path_of(const std::string& store, Form form) {
  return cat(store, '/', kFileNames[static_cast<size_t>(form)]);
}

struct MetadataFile {
  Form form = Form::json;
  std::string path;
  io::TemporaryBytes bytes = {};
  std::shared_ptr<const io::OpenFile> held = {};
};

// Returns nullopt if the folder has none, which is a store without datasets. Throws IoError, including when there is no
// folder; CorruptFileError if the file has more than `max_bytes`. `when_open` is called between opening the file, after
// which its bytes are fixed, and reading it.
std::optional<MetadataFile> read_metadata_file(const io::Location& store, uint64_t max_bytes = kMaxStoredBytes,
                                               const std::function<void()>& when_open = nullptr);

// Version of the file that read_metadata_file() would read.
std::optional<io::FileVersion> metadata_version(const io::Location& store);
// The same among the names in a store's folder; nullopt if there was none.
std::optional<io::FileVersion> metadata_version(const io::Location& store, const std::vector<std::string>& names);

// Throws UnsupportedFormatError, and CorruptFileError, also when it decompresses to more than `max_bytes`.
Metadata decode_metadata(const MetadataFile& file, uint64_t max_bytes = array_file::kMaxMetadataBytes);

// Like encode_json() and encode_msgpack(); FieldError for more than `max_bytes` before compression.
std::vector<std::byte> encode_metadata(const Metadata& metadata, Form form,
                                       uint64_t max_bytes = array_file::kMaxMetadataBytes);

// Returns the metadata of a file with another stamp, as a file of the same name, which gives the form. An empty file
// stands for that of a store without datasets. Throws FieldError for another name.
std::vector<std::byte> stamp_metadata(const std::string& name, Bytes file, std::string stamp);

}  // namespace atompack::atlas_store
