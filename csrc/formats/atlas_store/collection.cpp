#include "formats/atlas_store/collection.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <unordered_set>

#include "base/error.h"
#include "base/excerpt.h"
#include "formats/atlas_store/metadata/document.h"
#include "serial/msgpack/reader.h"

namespace atompack::atlas_store {
namespace {

using In = serial::MsgpackReader;
using array_file::Extreme;
using io::ByteRange;

constexpr std::string_view kMagic = kCollectionMagic, kMaskMagic = "ATLM";
constexpr uint64_t kHeaderBytes = 8, kTrailerBytes = 16;
// Fetched from a remote store with the first request.
constexpr uint64_t kUsualEndBytes = uint64_t{256} << 10;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

bool begins_with_magic(const std::string& path) {
  const std::shared_ptr<const io::OpenFile> file = io::open_file(path);
  std::array<std::byte, kMagic.size()> first;
  return file->read_at(0, first) == first.size() && as_text(first) == kMagic;
}

// Values of a footer are lists by position.
template <typename... Fields>
void fields(In& in, std::string_view what, const Fields&... decode) {
  expect(in, Token::list, what);
  const uint64_t at = in.position();
  if (const uint64_t n = in.enter_list().left; n != sizeof...(decode)) {
    throw CorruptFileError(cat(what, ": expected ", sizeof...(decode), " elements, got ", n), at);
  }
  (decode(), ...);
}

template <typename Decode>
void each(In& in, std::string_view what, const Decode& decode) {
  expect(in, Token::list, what);
  for (auto scope = in.enter_list(); in.next_item(scope);) decode();
}

std::string_view text(In& in, std::string_view what) {
  expect(in, Token::text, what);
  return in.text();
}

uint64_t index(In& in, size_t end, std::string_view what) {
  const uint64_t at = in.position();
  const uint64_t found = natural(in, what);
  if (found < end) return found;
  throw CorruptFileError(cat(what, ": expected a number below ", end, ", got ", found), at);
}

template <typename T>
T number(In& in, std::string_view what) {
  expect(in, Token::number, what);
  const uint64_t at = in.position();
  const serial::Number found = in.number();
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::visit([](auto value) { return static_cast<double>(value); }, found));
  } else {
    const auto fits = [](auto value) {
      if constexpr (std::is_integral_v<decltype(value)>) return std::in_range<T>(value);
      return false;
    };
    if (!std::visit(fits, found)) throw CorruptFileError(cat(what, ": expected an integer of its type"), at);
    return std::visit([](auto value) { return static_cast<T>(value); }, found);
  }
}

// A map of one entry, whose key says what the value is.
template <size_t kSize>
size_t tag(In& in, const std::array<std::string_view, kSize>& tags, std::string_view what) {
  expect(in, Token::map, what);
  const uint64_t at = in.position();
  auto scope = in.enter_map();
  std::string_view name;
  if (scope.left != 1 || !in.next_key(scope, name)) throw CorruptFileError(cat(what, ": expected one tag"), at);
  const auto found = std::ranges::find(tags, name);
  if (found == tags.end()) throw CorruptFileError(cat(what, ": expected a known tag, got ", excerpt(name)), at);
  return static_cast<size_t>(found - tags.begin());
}

bool is_nil(In& in) {
  if (in.peek() != Token::null) return false;
  in.null();
  return true;
}

// In the order of the alternatives of Extreme.
constexpr std::array<std::string_view, 5> kExtremeTags{"Int", "UInt", "Float", "Bytes", "TimestampNs"};
// In the order of the tags of footers.
constexpr std::array<std::string_view, 6> kFillTags{"Bool", "Int", "UInt", "Float", "String", "TimestampNs"};
// In the order of the alternatives of array_file::AttributeValue.
constexpr std::array<std::string_view, array_file::kAttributeTags + 1> kAttributeTags{
    "Bool",       "Int8",        "Int16",
    "Int32",      "Int64",       "UInt8",
    "UInt16",     "UInt32",      "UInt64",
    "Float32",    "Float64",     "String",
    "Binary",     "BoolList",    "Int8List",
    "Int16List",  "Int32List",   "Int64List",
    "UInt8List",  "UInt16List",  "UInt32List",
    "UInt64List", "Float32List", "Float64List",
    "StringList", "BinaryList",  "TimestampNanoseconds"};

std::vector<std::byte> byte_list(In& in, std::string_view what) {
  std::vector<std::byte> bytes;
  each(in, what, [&] { bytes.push_back(std::byte{number<uint8_t>(in, what)}); });
  return bytes;
}

std::optional<Extreme> extreme(In& in) {
  constexpr std::string_view kWhat = "extreme";
  if (is_nil(in)) return std::nullopt;
  switch (tag(in, kExtremeTags, kWhat)) {
    case 0:
      return number<int64_t>(in, kWhat);
    case 1:
      return number<uint64_t>(in, kWhat);
    case 2:
      return number<double>(in, kWhat);
    case 3:
      return std::string(as_text(byte_list(in, kWhat)));
    default:
      return array_file::Timestamp{number<int64_t>(in, kWhat)};
  }
}

// The fill value that counts is the one in the segment.
void skip_fill(In& in) {
  constexpr std::string_view kWhat = "fill value";
  if (is_nil(in)) return;
  const size_t found = tag(in, kFillTags, kWhat);
  if (kFillTags.at(found) == "String") return static_cast<void>(text(in, kWhat));
  if (kFillTags.at(found) != "Bool") return static_cast<void>(number<double>(in, kWhat));
  expect(in, Token::boolean, kWhat);
  in.boolean();
}

class AttributeDecoder {
 public:
  AttributeDecoder(In& in, AttributeList& list) : in_(in), list_(list) {}

  array_file::AttributeValue decode() {
    return decode_tagged(tag(in_, kAttributeTags, kWhat), std::make_index_sequence<kAttributeTags.size()>{});
  }

 private:
  static constexpr std::string_view kWhat = "attribute";

  template <size_t... N>
  array_file::AttributeValue decode_tagged(size_t found, std::index_sequence<N...>) {
    using Decode = array_file::AttributeValue (AttributeDecoder::*)();
    constexpr std::array<Decode, sizeof...(N)> kDecode{
        &AttributeDecoder::decode_as<std::variant_alternative_t<N, array_file::AttributeValue>>...};
    return (this->*kDecode.at(found))();
  }

  template <typename T>
  array_file::AttributeValue decode_as() {
    T value{};
    decode_into(value);
    return value;
  }

  template <typename T>
  void decode_into(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      expect(in_, Token::boolean, kWhat);
      value = in_.boolean();
    } else {
      value = number<T>(in_, kWhat);
    }
  }
  void decode_into(std::string_view& value) { value = text(in_, kWhat); }
  void decode_into(array_file::Timestamp& value) { value.nanoseconds = number<int64_t>(in_, kWhat); }
  void decode_into(Bytes& value) { value = list_.owned.emplace_back(byte_list(in_, kWhat)); }
  template <typename T>
  void decode_into(std::vector<T>& list) {
    each(in_, kWhat, [&] {
      T value{};
      decode_into(value);
      list.push_back(value);
    });
  }

  In& in_;
  AttributeList& list_;
};

AttributeList decode_attributes(In& in, const std::vector<std::string_view>& keys) {
  AttributeList list;
  each(in, "attributes", [&] {
    array_file::Attribute attribute;
    fields(
        in, "attribute", [&] { attribute.key = keys[index(in, keys.size(), "attribute key")]; },
        [&] { attribute.value = AttributeDecoder(in, list).decode(); });
    list.values.push_back(std::move(attribute));
  });
  return list;
}

// Calls use(position, attributes) for each array that has attributes.
template <typename Use>
void each_array_attributes(In& in, const std::vector<std::string_view>& keys, size_t n_arrays, const Use& use) {
  each(in, "attributes of arrays", [&] {
    uint64_t position = 0;
    fields(
        in, "attributes of an array", [&] { position = index(in, n_arrays, "array of attributes"); },
        [&] { use(position, decode_attributes(in, keys)); });
  });
}

template <typename Use>
void each_statistics(In& in, size_t n_arrays, const Use& use) {
  each(in, "statistics", [&] {
    uint64_t position = 0;
    array_file::ArrayStatistics found;
    fields(
        in, "statistics of an array", [&] { position = index(in, n_arrays, "array of statistics"); },
        [&] {
          fields(
              in, "statistics of an array", [&] { found.min = extreme(in); }, [&] { found.max = extreme(in); },
              [&] { found.n_null = natural(in, "null count"); }, [&] { found.n_rows = natural(in, "row count"); });
        });
    use(position, std::move(found));
  });
}

class FooterDecoder {
 public:
  // `end`: of the segments. `deleted`: sorted ordinals.
  FooterDecoder(Container& container, Metadata& metadata, uint64_t end, const std::vector<uint32_t>& deleted)
      : container_(container), metadata_(metadata), end_(end), deleted_(deleted), in_(container.footer.bytes()) {}

  void decode() {
    container_.version == kByDataset ? decode_by_dataset() : decode_by_variable();
    in_.finish();
  }

 private:
  void decode_by_dataset() {
    fields(
        in_, "footer", [&] { check_version(); }, [&] { natural(in_, "version of segments"); },
        [&] { metadata_.codec = decode_codec(in_); }, [&] { number<int64_t>(in_, "time of creation"); },
        [&] {
          each(in_, "schemas", [&] { fields(in_, "schema", [&] { metadata_.add_dataset_schema(decode_schema()); }); });
        },
        [&] { each(in_, "attribute keys", [&] { container_.keys.push_back(text(in_, "attribute key")); }); },
        [&] { each(in_, "datasets", [&] { decode_dataset(); }); });
  }

  void decode_by_variable() {
    fields(
        in_, "footer", [&] { check_version(); }, [&] { metadata_.codec = decode_codec(in_); },
        [&] { number<int64_t>(in_, "time of creation"); },
        [&] { each(in_, "strings", [&] { strings_.push_back(text(in_, "string")); }); },
        [&] { each(in_, "dtypes", [&] { dtypes_.push_back(decode_dtype()); }); },
        [&] { each(in_, "schemas", [&] { metadata_.add_dataset_schema(decode_typed_schema()); }); },
        [&] { each(in_, "segments", [&] { decode_segment(); }); },
        [&] {
          check_segments();
          each(in_, "datasets", [&] {
            std::string_view name;
            fields(
                in_, "dataset", [&] { name = text(in_, "dataset name"); }, [&] { add_dataset(name, decode_number()); });
          });
        });
  }

  void check_version() {
    const uint64_t version = natural(in_, "version in the footer");
    if (version == container_.version) return;
    throw_corrupt("version in the footer: expected ", container_.version, ", got ", version);
  }

  uint64_t decode_number() { return index(in_, metadata_.n_dataset_schemas(), "schema of a dataset"); }

  DataType decode_dtype(size_t depth = 0) {
    constexpr size_t kMaxLists = 32;
    constexpr std::array kListTags{kList};
    if (in_.peek() == Token::text) {
      const std::string_view name = in_.text();
      if (const auto type = kind_of(kTypes, name)) return {*type, {}};
      throw UnsupportedFormatError(cat("dtype: expected a known type, got ", excerpt(name)));
    }
    if (depth == kMaxLists) throw_corrupt("dtype: expected at most ", kMaxLists, " lists, got more");
    tag(in_, kListTags, "dtype");
    DataType type;
    fields(in_, "type in a list", [&] { type = decode_dtype(depth + 1); });
    type.lists.insert(type.lists.begin(), std::nullopt);
    return type;
  }

  // Of version 1.
  DatasetSchema decode_schema() {
    DatasetSchema schema;
    expect(in_, Token::map, "arrays");
    std::string_view name;
    for (auto scope = in_.enter_map(); in_.next_key(scope, name);) {
      Schema array;
      array.codec = metadata_.codec;
      const uint32_t variable = add_variable(name, schema);
      fields(
          in_, "array", [&] { array.dtype = decode_dtype(); }, [&] { array.shape = decode_sizes(in_, "shape"); },
          [&] { array.chunk_shape = decode_sizes(in_, "chunk shape"); },
          [&] { array.dimension_names = decode_texts(in_, "dimension names"); }, [&] { skip_fill(in_); });
      schema.arrays.push_back({variable, metadata_.add_schema(array)});
    }
    return schema;
  }

  // Of version 8, which leaves all but the dtype to the segments.
  DatasetSchema decode_typed_schema() {
    DatasetSchema schema;
    fields(
        in_, "schema",
        [&] {
          each(in_, "arrays", [&] {
            uint32_t variable = 0;
            Schema array;
            array.codec = metadata_.codec;
            array.is_complete = false;
            fields(
                in_, "array", [&] { variable = add_variable(decode_string(), schema); },
                [&] { array.dtype = decode_dtype_number(); });
            schema.arrays.push_back({variable, metadata_.add_schema(array)});
          });
        },
        [&] { schema.attributes = decode_declared(); },
        [&] {
          each(in_, "attributes of arrays", [&] {
            uint64_t position = 0;
            fields(
                in_, "attributes of an array",
                [&] { position = index(in_, schema.arrays.size(), "array of attributes"); },
                [&] { schema.array_attributes.emplace_back(schema.arrays[position].variable, decode_declared()); });
          });
        });
    if (!schema.attributes.empty()) metadata_.attribute_variable = metadata_.add_variable(kCollectionAttributes);
    return schema;
  }

  std::string_view decode_string() { return strings_[index(in_, strings_.size(), "string")]; }
  const DataType& decode_dtype_number() { return dtypes_[index(in_, dtypes_.size(), "dtype")]; }

  std::vector<DeclaredAttribute> decode_declared() {
    std::vector<DeclaredAttribute> declared;
    each(in_, "attributes", [&] {
      DeclaredAttribute attribute;
      fields(
          in_, "attribute", [&] { attribute.key = decode_string(); }, [&] { attribute.type = decode_dtype_number(); });
      declared.push_back(std::move(attribute));
    });
    return declared;
  }

  uint32_t add_variable(std::string_view name, const DatasetSchema& schema) {
    const uint32_t variable = metadata_.add_variable(name);
    if (std::ranges::find(schema.arrays, variable, &Entry::variable) == schema.arrays.end()) return variable;
    throw CorruptFileError(cat("arrays: duplicate name ", excerpt(name)), in_.position());
  }

  ByteRange checked(ByteRange range) const {
    if (range.offset >= kHeaderBytes && range.offset <= end_ && range.length <= end_ - range.offset) return range;
    throw_corrupt("segment: expected a range in ", kHeaderBytes, "..", end_, ", got ", range.length, " bytes at ",
                  range.offset);
  }

  void decode_segment() {
    std::string_view name;
    ByteRange range;
    fields(
        in_, "segment", [&] { name = decode_string(); }, [&] { range.offset = natural(in_, "offset of a segment"); },
        [&] { range.length = natural(in_, "length of a segment"); });
    const uint32_t variable = metadata_.add_variable(name);
    if (variable >= container_.segments.size()) container_.segments.resize(variable + 1);
    if (container_.segments[variable].offset != 0) {
      throw CorruptFileError(cat("segments: duplicate name ", excerpt(name)), in_.position());
    }
    container_.segments[variable] = checked(range);
  }

  void check_segments() {
    container_.segments.resize(metadata_.n_variables());
    for (uint32_t variable = 0; variable < metadata_.n_variables(); ++variable) {
      if (container_.segments[variable].offset != 0) continue;
      throw CorruptFileError(
          cat("segments: expected one of ", excerpt(metadata_.variable_name(variable)), ", got none"));
    }
  }

  // False if the dataset is deleted.
  bool add_dataset(std::string_view name, uint64_t schema) {
    if (!names_.insert(name).second) throw_corrupt("datasets: duplicate name ", excerpt(name));
    const bool is_deleted = std::ranges::binary_search(deleted_, ordinal_++);
    if (!is_deleted) metadata_.add_dataset(name, schema);
    return !is_deleted;
  }

  // Of version 1. Attributes and statistics are decoded again when they are asked for.
  void decode_dataset() {
    std::string_view name;
    uint64_t schema = 0;
    ByteRange range;
    EncodedDataset encoded;
    const auto n_arrays = [&] { return metadata_.dataset_schema_at(schema).arrays.size(); };
    const auto encoded_as = [&](Bytes& bytes, const auto& decode) {
      const uint64_t begin = in_.position();
      decode();
      bytes = in_.since(begin);
    };
    fields(
        in_, "dataset", [&] { name = text(in_, "dataset name"); }, [&] { schema = decode_number(); },
        [&] { range.offset = natural(in_, "offset of a segment"); },
        [&] { range.length = natural(in_, "length of a segment"); },
        [&] { encoded_as(encoded.attributes, [&] { decode_attributes(in_, container_.keys); }); },
        [&] {
          encoded_as(encoded.array_attributes, [&] {
            each_array_attributes(in_, container_.keys, n_arrays(), [](uint64_t, const AttributeList&) {});
          });
        },
        [&] {
          encoded_as(encoded.statistics,
                     [&] { each_statistics(in_, n_arrays(), [](uint64_t, const array_file::ArrayStatistics&) {}); });
        });
    checked(range);
    if (!add_dataset(name, schema)) return;
    container_.segments.push_back(range);
    container_.datasets.push_back(encoded);
  }

  Container& container_;
  Metadata& metadata_;
  uint64_t end_;
  const std::vector<uint32_t>& deleted_;
  In in_;
  std::vector<std::string_view> strings_;
  std::vector<DataType> dtypes_;
  std::unordered_set<std::string_view> names_;
  uint32_t ordinal_ = 0;
};

// Ordinals of deleted datasets, sorted. An empty file deletes nothing.
std::vector<uint32_t> read_mask(const io::OpenFile* file, uint64_t max_bytes) {
  if (file == nullptr) return {};
  return in_file(file->path(), [&] {
    const std::vector<std::byte> bytes = io::read_whole(*file, max_bytes);
    std::vector<uint32_t> ordinals;
    if (bytes.empty()) return ordinals;
    ByteCursor cursor(bytes);
    if (as_text(cursor.take(kMaskMagic.size(), "magic")) != kMaskMagic) {
      throw_corrupt("magic: expected ", kMaskMagic, " at the beginning");
    }
    const auto version = cursor.read_le<uint32_t>("version");
    if (version != 1) throw UnsupportedFormatError(cat("version of the deletion mask: expected 1, got ", version));
    const auto count = cursor.read_le<uint32_t>("count");
    const Bytes body = cursor.take(sizeof(uint32_t) * uint64_t{count}, "ordinals");
    for (uint64_t i = 0; i < count; ++i) ordinals.push_back(load_le<uint32_t>(body.data() + sizeof(uint32_t) * i));
    std::ranges::sort(ordinals);
    return ordinals;
  });
}

void check_magic(Bytes found, std::string_view where) {
  if (as_text(found) == kMagic) return;
  throw_corrupt("magic: expected ", kMagic, " at the ", where);
}

// The frame: its version, and the range of the footer.
struct Frame {
  uint32_t version = 0;
  ByteRange footer;
};

Frame read_frame(const io::ByteSource& file, io::RangeBuffer& buffer) {
  constexpr uint64_t kMinBytes = kHeaderBytes + kTrailerBytes;
  if (file.length() < kMinBytes) throw_corrupt("size: expected at least ", kMinBytes, " bytes, got ", file.length());
  const uint64_t n_end = file.is_mapped() ? file.length() : std::min(file.length(), kUsualEndBytes);
  const Bytes end = file.bytes(file.length() - n_end, n_end, buffer);
  ByteCursor trailer(end.last(kTrailerBytes));
  const auto footer_bytes = trailer.read_le<uint64_t>("footer size");
  const auto version = trailer.read_le<uint32_t>("version");
  check_magic(trailer.take(kMagic.size(), "magic"), "end");
  if (version != kByDataset && version != kByVariable) {
    throw UnsupportedFormatError(cat("version of the collection: expected 1 or 8, got ", version));
  }
  io::RangeBuffer first_buffer;
  ByteCursor first(file.bytes(0, kHeaderBytes, first_buffer));
  check_magic(first.take(kMagic.size(), "magic"), "beginning");
  if (const auto at_first = first.read_le<uint32_t>("version"); at_first != version) {
    throw_corrupt("version at the beginning: expected ", version, " as at the end, got ", at_first);
  }
  if (const uint64_t limit = file.length() - kMinBytes; footer_bytes > limit) {
    throw_corrupt("footer size: expected at most ", limit, ", got ", footer_bytes);
  }
  return {version, {file.length() - kTrailerBytes - footer_bytes, footer_bytes}};
}

}  // namespace

std::shared_ptr<const io::ByteSource> Container::bytes(array_file::Reading reading) const {
  const bool is_mapped = reading == array_file::Reading::mapped;
  return file->bytes(file->version().size, is_mapped ? io::Access::automatic : io::Access::read);
}

AttributeList Container::attributes(uint32_t dataset, std::optional<uint64_t> position) const {
  const EncodedDataset& encoded = datasets[dataset];
  In in(position ? encoded.array_attributes : encoded.attributes);
  if (!position) return decode_attributes(in, keys);
  AttributeList found;
  each_array_attributes(in, keys, SIZE_MAX, [&](uint64_t array, AttributeList list) {
    if (array == *position) found = std::move(list);
  });
  return found;
}

std::optional<array_file::ArrayStatistics> Container::statistics(uint32_t dataset, uint64_t position) const {
  std::optional<array_file::ArrayStatistics> found;
  In in(datasets[dataset].statistics);
  each_statistics(in, SIZE_MAX, [&](uint64_t array, array_file::ArrayStatistics statistics) {
    if (array == position) found = std::move(statistics);
  });
  return found;
}

std::optional<io::Location> find_container(const io::Location& place) {
  const bool is_named = std::filesystem::path(place.path()).filename() == kContainerName;
  if (place.is_remote()) {
    if (is_named) return place;
    const std::vector<std::string> names = io::names_among(place, std::array{std::string(kContainerName)});
    if (std::ranges::find(names, kContainerName) == names.end()) return std::nullopt;
    return place / kContainerName;
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(place.path(), ignored)) {
    return is_named || begins_with_magic(place.path()) ? std::optional(place) : std::nullopt;
  }
  const io::Location inside = place / kContainerName;
  return io::exists(inside) ? std::optional(inside) : std::nullopt;
}

io::Location mask_of(const io::Location& container) {
  return container.at(cat(folder_of(container.path()), kMaskName));
}

Collection read_collection(const io::Location& place, uint64_t max_metadata_bytes) {
  auto container = std::make_shared<Container>();
  Collection collection;
  container->file = io::open_file(place);
  container->mask = io::find_file(mask_of(place));
  const std::vector<uint32_t> deleted = read_mask(container->mask.get(), max_metadata_bytes);
  in_file(place.path(), [&] {
    const uint64_t size = container->file->version().size;
    const auto source = container->file->bytes(size, io::Access::automatic);
    io::RangeBuffer buffer;
    const Frame frame = read_frame(*source, buffer);
    container->version = frame.version;
    const Bytes stored = source->bytes(frame.footer.offset, frame.footer.length, buffer);
    if (stored.empty()) throw CorruptFileError("footer: expected a zstd frame, got 0 bytes");
    container->footer = codec::zstd_decompress_unsized(stored, max_metadata_bytes, "max_metadata_bytes=");
    shift_offset(0, " of the decompressed footer",
                 [&] { FooterDecoder(*container, collection.metadata, frame.footer.offset, deleted).decode(); });
  });
  const io::FileVersion& written = container->file->version();
  if (container->mask && container->mask->version().seconds < written.seconds) {
    collection.metadata.warn(cat(container->mask->path(),
                                 ": older than the collection, which may have been written "
                                 "again: it hides ",
                                 deleted.size(), " datasets"));
  }
  collection.container = std::move(container);
  return collection;
}

}  // namespace atompack::atlas_store
