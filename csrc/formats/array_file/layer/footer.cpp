#include "formats/array_file/layer/footer.h"

#include <array>

namespace atompack::array_file {

uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic) {
  if (trailer.size() < kTrailerBytes) {
    throw CorruptFileError(cat("trailer: expected ", kTrailerBytes, " bytes, got ", trailer.size()));
  }
  ByteCursor cursor(trailer);
  const auto size = cursor.read_le<uint64_t>("footer size");
  if (as_text(cursor.take(magic.size(), "magic")) != magic) {
    throw CorruptFileError(cat("magic: expected ", magic, " at the end"));
  }
  const uint64_t limit = file_bytes - kTrailerBytes;
  if (size > limit) throw CorruptFileError(cat("footer size: expected at most ", limit, ", got ", size));
  return size;
}

Parts split_file(Bytes file, std::string_view magic) {
  const uint64_t size = footer_bytes(file.last(std::min<size_t>(file.size(), kTrailerBytes)), file.size(), magic);
  const Bytes body = file.first(file.size() - kTrailerBytes);
  return {body.first(body.size() - size), body.last(size)};
}

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic) {
  const uint64_t size = archive.size();
  archive.resize(size + kTrailerBytes);
  store(store_le(archive.data() + size, size), as_bytes(magic));
  return archive;
}

namespace {

constexpr uint8_t kTypes = 16, kFillTags = 6, kAttributeTypes = 12, kPairWidths = 3;

void check_block(ArchiveCheck& check, uint64_t at) {
  const bool named = check.tag(at + BlockLayout::kCodec, 2, "codec tag") == 1;
  if (named) check.text(at + BlockLayout::kCodecName, "codec name");
}

// The types of list elements precede the type of the list.
void check_type(ArchiveCheck& check, uint64_t at) {
  check.chain(at, TaggedLayout::kPayload, "element type", [&](uint64_t slot) {
    const auto type = static_cast<Type>(check.tag(slot, kTypes, "type tag"));
    return type == Type::fixed_list || type == Type::list;
  });
}

void check_fill(ArchiveCheck& check, uint64_t at) {
  const uint8_t tag = check.tag(at, kFillTags, "fill tag");
  if (tag == 0) check.boolean(at + 1, "fill value");
  if (tag == 4) check.text(at + TaggedLayout::kPayload, "fill value");
}

void check_attributes(ArchiveCheck& check, uint64_t at) {
  const uint64_t width = uint64_t{2} << check.tag(at, kPairWidths, "attributes tag");
  check.integers(at + TaggedLayout::kPayload, {2 * width, width}, "attributes");
}

void check_attribute_value(ArchiveCheck& check, uint64_t at) {
  const uint8_t tag = check.tag(at, kAttributeTypes, "attribute tag");
  if (tag == 0) check.boolean(at + 1, "attribute value");
  if (tag == 11) check.text(at + TaggedLayout::kPayload, "attribute value");
}

// In the order of the fields' targets.
void check_array(ArchiveCheck& check, uint64_t at) {
  check.text(at + ArrayLayout::kName, "array name");
  check_type(check, at + ArrayLayout::kType);
  check.integers(at + ArrayLayout::kShape, kU32, "shape");
  check.vector(at + ArrayLayout::kDimensionNames, kStringSlot, "dimension names",
               [&](uint64_t name) { check.text(name, "dimension name"); });
  check.integers(at + ArrayLayout::kChunkShape, kU32, "chunk shape");
  check.vector(at + ArrayLayout::kChunks, ChunkLayout::kLayout, "chunks",
               [&](uint64_t chunk) { check.integers(chunk + ChunkLayout::kCoordinate, kU32, "chunk coordinate"); });
  const bool has_fill = check.tag(at + ArrayLayout::kHasFill, 2, "fill option") == 1;
  if (has_fill) check_fill(check, at + ArrayLayout::kFill);
  check.boolean(at + ArrayLayout::kDeleted, "deleted");
  check_attributes(check, at + ArrayLayout::kAttributes);
}

void check_root(ArchiveCheck& check, uint64_t root) {
  check.vector(root + RootLayout::kBlocks, BlockLayout::kLayout, "blocks",
               [&](uint64_t at) { check_block(check, at); });
  check.vector(root + RootLayout::kArrays, ArrayLayout::kLayout, "arrays",
               [&](uint64_t at) { check_array(check, at); });
  check.vector(root + RootLayout::kAttributeKeys, kStringSlot, "attribute keys",
               [&](uint64_t at) { check.text(at, "attribute key"); });
  check.vector(root + RootLayout::kAttributeValues, TaggedLayout::kLayout, "attribute values",
               [&](uint64_t at) { check_attribute_value(check, at); });
  check.text(root + RootLayout::kBaseHint, "base file hint");
}

}  // namespace

uint64_t check_footer(Bytes archive) {
  constexpr Layout kRoot = RootLayout::kLayout;
  if (archive.size() < kRoot.bytes || archive.size() % kRoot.alignment != 0) {
    throw CorruptFileError(
        cat("footer: expected at least ", kRoot.bytes, " bytes in whole eights, got ", archive.size()));
  }
  const uint64_t root = archive.size() - kRoot.bytes;
  // The version is checked first, since the layout of other versions differs.
  const auto version = load_le<uint32_t>(archive.data() + root + RootLayout::kVersion);
  if (version != kFooterVersion) {
    throw UnsupportedFormatError(cat("footer version: expected ", kFooterVersion, ", got ", version));
  }
  ArchiveCheck check(archive, root);
  check_root(check, root);
  return root;
}

namespace {

struct TypeTraits {
  std::string_view name;
  uint64_t item_bytes;
};

constexpr std::array<TypeTraits, 16> kTraits{{{"bool", 1},
                                              {"int8", 1},
                                              {"int16", 2},
                                              {"int32", 4},
                                              {"int64", 8},
                                              {"uint8", 1},
                                              {"uint16", 2},
                                              {"uint32", 4},
                                              {"uint64", 8},
                                              {"float32", 4},
                                              {"float64", 8},
                                              {"string", 0},
                                              {"binary", 0},
                                              {"fixed-size list", 0},
                                              {"list", 0},
                                              {"timestamp", 8}}};

Fill load_fill(const Archive& archive, uint64_t at) {
  const uint64_t payload = at + TaggedLayout::kPayload;
  switch (archive.load<uint8_t>(at)) {
    case 0:
      return archive.load<uint8_t>(at + 1) == 1;
    case 1:
      return archive.load<int64_t>(payload);
    case 2:
      return archive.load<uint64_t>(payload);
    case 3:
      return archive.load<double>(payload);
    case 4:
      return archive.text(payload);
    default:
      return Timestamp{archive.load<int64_t>(payload)};
  }
}

// The value of alternative N, at its own alignment after the tag.
template <size_t N>
AttributeValue load_alternative(const Archive& archive, uint64_t at) {
  using T = std::variant_alternative_t<N, AttributeValue>;
  if constexpr (std::is_same_v<T, bool>) {
    return archive.load<uint8_t>(at + 1) == 1;
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return archive.text(at + TaggedLayout::kPayload);
  } else {
    return archive.load<T>(at + alignof(T));
  }
}

template <size_t... N>
AttributeValue load_attribute(const Archive& archive, uint64_t at, std::index_sequence<N...>) {
  using Load = AttributeValue (*)(const Archive&, uint64_t);
  constexpr std::array<Load, sizeof...(N)> kLoad{&load_alternative<N>...};
  return kLoad.at(archive.load<uint8_t>(at))(archive, at);
}

uint64_t load_unsigned(const Archive& archive, uint64_t at, uint64_t bytes) {
  if (bytes == 2) return archive.load<uint16_t>(at);
  return bytes == 4 ? archive.load<uint32_t>(at) : archive.load<uint64_t>(at);
}

void check_index(uint64_t index, Run among, std::string_view what) {
  if (index < among.count) return;
  throw CorruptFileError(cat(what, ": expected less than ", among.count, ", got ", index));
}

}  // namespace

std::string_view name_of(Type type) { return kTraits.at(static_cast<size_t>(type)).name; }

uint64_t item_bytes(Type type) { return kTraits.at(static_cast<size_t>(type)).item_bytes; }

Footer::Footer(Bytes archive) : archive_(archive) {
  const uint64_t root = check_footer(archive);
  blocks_ = archive_.run(root + RootLayout::kBlocks);
  arrays_ = archive_.run(root + RootLayout::kArrays);
  attribute_keys_ = archive_.run(root + RootLayout::kAttributeKeys);
  attribute_values_ = archive_.run(root + RootLayout::kAttributeValues);
}

BlockRecord Footer::block(uint64_t index) const {
  const uint64_t at = blocks_.at + index * BlockLayout::kLayout.bytes;
  BlockRecord block{.id = archive_.load<uint32_t>(at + BlockLayout::kId),
                    .offset = archive_.load<uint64_t>(at + BlockLayout::kOffset),
                    .stored_bytes = archive_.load<uint64_t>(at + BlockLayout::kStoredBytes),
                    .decoded_bytes = archive_.load<uint64_t>(at + BlockLayout::kDecodedBytes),
                    .codec = std::nullopt};
  const bool named = archive_.load<uint8_t>(at + BlockLayout::kCodec) == 1;
  if (named) block.codec = archive_.text(at + BlockLayout::kCodecName);
  return block;
}

ArrayRecord Footer::array(uint64_t index) const {
  const uint64_t at = arrays_.at + index * ArrayLayout::kLayout.bytes;
  ArrayRecord array{.name = archive_.text(at + ArrayLayout::kName),
                    .type = static_cast<Type>(archive_.load<uint8_t>(at + ArrayLayout::kType)),
                    .shape = archive_.run(at + ArrayLayout::kShape),
                    .dimension_names = archive_.run(at + ArrayLayout::kDimensionNames),
                    .chunk_shape = archive_.run(at + ArrayLayout::kChunkShape),
                    .chunks = archive_.run(at + ArrayLayout::kChunks),
                    .fill = std::nullopt,
                    .deleted = archive_.load<uint8_t>(at + ArrayLayout::kDeleted) == 1,
                    .attributes = at + ArrayLayout::kAttributes};
  const bool has_fill = archive_.load<uint8_t>(at + ArrayLayout::kHasFill) == 1;
  if (has_fill) array.fill = load_fill(archive_, at + ArrayLayout::kFill);
  return array;
}

std::string_view Footer::array_name(uint64_t index) const {
  return archive_.text(arrays_.at + index * ArrayLayout::kLayout.bytes + ArrayLayout::kName);
}

ChunkRecord Footer::chunk(Run chunks, uint64_t index) const {
  const uint64_t at = chunks.at + index * ChunkLayout::kLayout.bytes;
  return {.coordinate = archive_.run(at + ChunkLayout::kCoordinate),
          .block = archive_.load<uint32_t>(at + ChunkLayout::kBlock),
          .offset = archive_.load<uint32_t>(at + ChunkLayout::kOffset),
          .bytes = archive_.load<uint32_t>(at + ChunkLayout::kBytes)};
}

std::vector<uint64_t> Footer::integers(Run integers) const {
  std::vector<uint64_t> values(integers.count);
  for (uint64_t i = 0; i < integers.count; ++i) values[i] = integer(integers, i);
  return values;
}

std::vector<std::string> Footer::strings(Run strings) const {
  std::vector<std::string> values;
  for (uint64_t i = 0; i < strings.count; ++i) values.emplace_back(archive_.text(strings.at + i * kStringSlot.bytes));
  return values;
}

std::vector<Attribute> Footer::attributes(const ArrayRecord& array) const {
  const uint64_t width = uint64_t{2} << archive_.load<uint8_t>(array.attributes);
  const Run pairs = archive_.run(array.attributes + TaggedLayout::kPayload);
  std::vector<Attribute> found;
  for (uint64_t i = 0; i < pairs.count; ++i) {
    const uint64_t at = pairs.at + i * 2 * width;
    const uint64_t key = load_unsigned(archive_, at, width);
    check_index(key, attribute_keys_, "attribute key");
    found.push_back({archive_.text(attribute_keys_.at + key * kStringSlot.bytes),
                     attribute_value(load_unsigned(archive_, at + width, width))});
  }
  return found;
}

AttributeValue Footer::attribute_value(uint64_t index) const {
  check_index(index, attribute_values_, "attribute value");
  const uint64_t at = attribute_values_.at + index * TaggedLayout::kLayout.bytes;
  return load_attribute(archive_, at, std::make_index_sequence<std::variant_size_v<AttributeValue>>{});
}

}  // namespace atompack::array_file
