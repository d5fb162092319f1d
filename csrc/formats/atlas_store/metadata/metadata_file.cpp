#include "formats/atlas_store/metadata/metadata_file.h"

#include <algorithm>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/lz4_codec.h"
#include "codec/zstd_codec.h"
#include "formats/atlas_store/metadata/document.h"
#include "io/folder.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {
namespace {

using codec::Codec;

constexpr Form kForms[] = {Form::json,    Form::json_zst,    Form::json_lz4,
                           Form::msgpack, Form::msgpack_zst, Form::msgpack_lz4};

Codec codec_of(Form form) {
  constexpr Codec kCodecs[] = {Codec::none, Codec::zstd, Codec::lz4};
  return kCodecs[static_cast<size_t>(form) % 3];
}

void check_size(uint64_t bytes, uint64_t max_bytes) {
  if (bytes <= max_bytes) return;
  throw_corrupt("metadata: expected at most max_metadata_bytes=", max_bytes, ", got ", bytes);
}

// An LZ4 block is preceded by its decoded size: memory is allocated once the block is known to have that size.
codec::DecodedContent decompress_lz4(Bytes stored, uint64_t max_bytes) {
  ByteCursor cursor(stored);
  const auto size = cursor.read_le<uint32_t>("lz4 prefix");
  check_size(size, max_bytes);
  const Bytes block = stored.subspan(cursor.position());
  if (const uint64_t held = codec::lz4_decoded_bytes(block); size != held) {
    throw_corrupt("lz4 prefix: expected ", held, ", got ", size);
  }
  codec::DecodedContent content{std::make_unique_for_overwrite<std::byte[]>(size), size};
  codec::decompress(Codec::lz4, block, {content.memory.get(), size});
  return content;
}

std::vector<std::byte> compress(Codec codec, Bytes bytes) {
  const size_t prefix = codec == Codec::lz4 ? sizeof(uint32_t) : 0;
  std::vector<std::byte> stored(prefix + codec::compressed_bound(codec, bytes.size()));
  if (prefix > 0) store_le(stored.data(), static_cast<uint32_t>(bytes.size()));
  constexpr int kLevel = 3;  // zstd's own default; below lz4's high compression
  const int level = codec == Codec::zstd ? kLevel : 0;
  stored.resize(prefix + codec::compress(codec, level, bytes, std::span(stored).subspan(prefix)));
  return stored;
}

Metadata decode(Bytes bytes, Form form) { return is_json(form) ? decode_json(bytes) : decode_msgpack(bytes); }

std::vector<Form> forms_among(const std::vector<std::string>& names) {
  std::vector<Form> forms;
  for (const Form form : kForms) {
    if (std::ranges::find(names, kFileNames[static_cast<size_t>(form)]) != names.end()) forms.push_back(form);
  }
  return forms;
}

// Those to look for, in this order. In a remote store listing all files costs as much as looking for one.
std::vector<Form> possible_forms(const io::Location& store) {
  if (store.is_remote()) {
    const std::vector<std::string> candidates(kFileNames.begin(), kFileNames.end());
    return forms_among(io::names_among(store, candidates));
  }
  return {std::begin(kForms), std::end(kForms)};
}

struct OpenForm {
  Form form = Form::json;
  std::shared_ptr<const io::OpenFile> file;
};

// All are opened together if they must be looked up in a remote store, one after the other otherwise.
OpenForm open_first_form(const io::Location& store) {
  const auto open = [&](Form form) { return io::find_file(store.at(path_of(store.path(), form))); };
  const auto names = store.is_remote() ? io::list_names(store) : std::nullopt;
  if (store.is_remote() && !names) {
    std::array<std::shared_ptr<const io::OpenFile>, std::size(kForms)> files;
    threads::parallel_for_each(files.size(), files.size(), [&](size_t i) { files[i] = open(kForms[i]); });
    const auto found = std::ranges::find_if(files, [](const auto& file) { return file != nullptr; });
    return found == files.end() ? OpenForm() : OpenForm{kForms[found - files.begin()], *found};
  }
  for (const Form form : names ? forms_among(*names) : possible_forms(store)) {
    if (auto file = open(form)) return {form, std::move(file)};
  }
  return {};
}

std::optional<io::FileVersion> first_version(const io::Location& store, const std::vector<Form>& forms) {
  for (const Form form : forms) {
    if (const auto version = io::version_of(store.at(path_of(store.path(), form)))) return version;
  }
  return std::nullopt;
}

Metadata decode_compressed(Bytes stored, Form form, uint64_t max_bytes) {
  const codec::DecodedContent content = codec_of(form) == Codec::zstd
                                            ? codec::zstd_decompress_unsized(stored, max_bytes, "max_metadata_bytes=")
                                            : decompress_lz4(stored, max_bytes);
  return shift_offset(0, " of the decompressed metadata", [&] { return decode(content.bytes(), form); });
}

}  // namespace

std::optional<MetadataFile> read_metadata_file(const io::Location& store, uint64_t max_bytes,
                                               const std::function<void()>& when_open) {
  const OpenForm found = open_first_form(store);
  if (found.file != nullptr) {
    const std::string path = path_of(store.path(), found.form);
    in_file(path, [&] { check_size(found.file->version().size, max_bytes); });
    if (store.is_remote()) found.file->announce(std::array{io::ByteRange{0, found.file->version().size}});
    if (when_open) when_open();
    io::TemporaryBytes bytes = io::read_temporarily(*found.file, std::min(max_bytes, kMaxStoredBytes));
    return MetadataFile{found.form, path, std::move(bytes), found.file};
  }
  if (when_open) when_open();
  if (!store.is_remote()) io::folders_in(store.path());  // throws if there is no folder
  return std::nullopt;
}

std::optional<io::FileVersion> metadata_version(const io::Location& store) {
  return first_version(store, possible_forms(store));
}

std::optional<io::FileVersion> metadata_version(const io::Location& store, const std::vector<std::string>& names) {
  return first_version(store, forms_among(names));
}

Metadata decode_metadata(const MetadataFile& file, uint64_t max_bytes) {
  return in_file(file.path, [&] {
    check_size(file.bytes.size(), max_bytes);
    return codec_of(file.form) == Codec::none ? decode(file.bytes, file.form)
                                              : decode_compressed(file.bytes, file.form, max_bytes);
  });
}

std::vector<std::byte> encode_metadata(const Metadata& metadata, Form form, uint64_t max_bytes) {
  const std::string text = is_json(form) ? encode_json(metadata) : encode_msgpack(metadata);
  if (const uint64_t limit = std::min(max_bytes, kMaxStoredBytes); text.size() > limit) {
    throw FieldError(cat("metadata: expected at most max_metadata_bytes=", limit, ", got ", text.size()));
  }
  return compress(codec_of(form), as_bytes(text));
}

std::vector<std::byte> stamp_metadata(const std::string& name, Bytes file, std::string stamp) {
  const auto found = std::ranges::find(kFileNames, name);
  if (found == kFileNames.end()) throw FieldError(cat(name, ": expected the name of a metadata file"));
  const auto form = static_cast<Form>(found - kFileNames.begin());
  Metadata metadata;
  if (!file.empty()) metadata = decode_metadata({form, name, {file.begin(), file.end()}});
  metadata.stamp = std::move(stamp);
  return encode_metadata(metadata, form);
}

}  // namespace atompack::atlas_store
