#include "formats/array_file/layer/footer.h"

#include <array>
#include <type_traits>
#include <utility>

#include "formats/array_file/read/statistics.h"

namespace atompack::array_file {

uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic) {
  if (trailer.size() < kTrailerBytes) {
    throw_corrupt("trailer: expected ", kTrailerBytes, " bytes, got ", trailer.size());
  }
  ByteCursor cursor(trailer);
  const auto size = cursor.read_le<uint64_t>("footer size");
  if (as_text(cursor.take(magic.size(), "magic")) != magic) throw_corrupt("magic: expected ", magic, " at the end");
  const uint64_t limit = file_bytes - kTrailerBytes;
  if (size > limit) throw_corrupt("footer size: expected at most ", limit, ", got ", size);
  return size;
}

Parts split_file(Bytes file, std::string_view magic) {
  const uint64_t size = footer_bytes(file.last(std::min<size_t>(file.size(), kTrailerBytes)), file.size(), magic);
  const Bytes body = file.first(file.size() - kTrailerBytes);
  return {body.first(body.size() - size), body.last(size)};
}

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic) {
  append_le(archive, uint64_t{archive.size()});
  append(archive, as_bytes(magic));
  return archive;
}

namespace {

constexpr uint8_t kTypes = 16, kFillTags = 6, kPairWidths = 3;
// Tags of attribute values; those of lists follow from kFirstList on in the order of those of single values.
constexpr uint8_t kStringTag = 11, kBinaryTag = 12, kFirstList = 13, kStringList = 24, kOldTags = 12;
constexpr Layout kByte{1, 1}, kRun{16, 8};

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

template <size_t... N>
constexpr auto sizes_of_lists(std::index_sequence<N...>) {
  return std::array{sizeof(std::variant_alternative_t<N + 1, AttributeValue>)...};
}

// Strings of version 6 are numbers of a list, which are checked when they are used.
void check_attribute_value(ArchiveCheck& check, uint64_t at, uint32_t version) {
  constexpr std::string_view kWhat = "attribute value";
  constexpr auto kItemBytes = sizes_of_lists(std::make_index_sequence<kStringList - kFirstList - 1>{});
  const uint8_t tag = check.tag(at, version == kFooterVersion ? kOldTags : kAttributeTags, "attribute tag");
  const uint64_t payload = at + TaggedLayout::kPayload;
  const bool is_6 = version == kFooterVersion6;
  if (tag == 0) return check.boolean(at + 1, kWhat);
  if (tag < kStringTag) return;
  if (tag == kStringTag) return is_6 ? void() : check.text(payload, kWhat);
  if (tag == kBinaryTag) return check.integers(payload, kByte, kWhat);
  if (tag == kFirstList) return check.vector(payload, kByte, kWhat, [&](uint64_t flag) { check.boolean(flag, kWhat); });
  if (tag == kStringList && is_6) return check.integers(payload, kU32, kWhat);
  if (tag == kStringList)
    return check.vector(payload, kStringSlot, kWhat, [&](uint64_t text) { check.text(text, kWhat); });
  if (tag > kStringList)
    return check.vector(payload, kRun, kWhat, [&](uint64_t bytes) { check.integers(bytes, kByte, kWhat); });
  const uint64_t bytes = kItemBytes.at(tag - kFirstList - 1);
  check.integers(payload, {bytes, bytes}, kWhat);
}

// In the order of the fields' targets.
void check_array(ArchiveCheck& check, uint64_t at, uint32_t version) {
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
  if (version == kFooterVersion6) {
    check.integers(at + Array6Layout::kAttributes, {8, 4}, "attributes");
    const bool has_statistics = check.tag(at + Array6Layout::kHasStatistics, 2, "statistics option") == 1;
    if (has_statistics) check_statistics(check, at + Array6Layout::kStatistics);
    return;
  }
  check.boolean(at + ArrayLayout::kDeleted, "deleted");
  check_attributes(check, at + ArrayLayout::kAttributes);
}

void check_root6(ArchiveCheck& check, uint64_t root) {
  check.vector(root + Root6Layout::kBlocks, BlockLayout::kLayout, "blocks",
               [&](uint64_t at) { check_block(check, at); });
  check.vector(root + Root6Layout::kStrings, kStringSlot, "strings", [&](uint64_t at) { check.text(at, "string"); });
  check.vector(root + Root6Layout::kAttributeValues, TaggedLayout::kLayout, "attribute values",
               [&](uint64_t at) { check_attribute_value(check, at, kFooterVersion6); });
  check.vector(root + Root6Layout::kArrays, Array6Layout::kLayout, "arrays",
               [&](uint64_t at) { check_array(check, at, kFooterVersion6); });
}

void check_root(ArchiveCheck& check, uint64_t root, uint32_t version) {
  check.vector(root + RootLayout::kBlocks, BlockLayout::kLayout, "blocks",
               [&](uint64_t at) { check_block(check, at); });
  check.vector(root + RootLayout::kArrays, ArrayLayout::kLayout, "arrays",
               [&](uint64_t at) { check_array(check, at, version); });
  check.vector(root + RootLayout::kAttributeKeys, kStringSlot, "attribute keys",
               [&](uint64_t at) { check.text(at, "attribute key"); });
  check.vector(root + RootLayout::kAttributeValues, TaggedLayout::kLayout, "attribute values",
               [&](uint64_t at) { check_attribute_value(check, at, version); });
  check.text(root + RootLayout::kBaseHint, "base file hint");
}

}  // namespace

// A root of 72 bytes has the version where older roots have a pointer, which is negative.
Root check_footer(Bytes archive) {
  constexpr Layout kRoot = RootLayout::kLayout, kRoot6 = Root6Layout::kLayout;
  if (archive.size() >= kRoot6.bytes && archive.size() % kRoot6.alignment == 0) {
    const uint64_t at = archive.size() - kRoot6.bytes;
    if (load_le<uint64_t>(archive.data() + at) == kFooterVersion6) {
      ArchiveCheck check(archive, at);
      check_root6(check, at);
      return {at, kFooterVersion6};
    }
  }
  if (archive.size() < kRoot.bytes || archive.size() % kRoot.alignment != 0) {
    throw CorruptFileError(
        cat("footer: expected at least ", kRoot.bytes, " bytes in whole eights, got ", archive.size()));
  }
  const uint64_t root = archive.size() - kRoot.bytes;
  // The version is checked first, since the layout of other versions differs.
  const auto version = load_le<uint32_t>(archive.data() + root + RootLayout::kVersion);
  if (version != kFooterVersion && version != kFooterVersion5) {
    throw UnsupportedFormatError(cat("footer version: expected 4, 5 or 6, got ", version));
  }
  ArchiveCheck check(archive, root);
  check_root(check, root, version);
  return {root, version};
}

namespace {

// In the order of the types.
constexpr std::array<uint8_t, 16> kItemBytes{1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 0, 0, 0, 0, 8};

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

uint64_t load_unsigned(const Archive& archive, uint64_t at, uint64_t bytes) {
  if (bytes == 2) return archive.load<uint16_t>(at);
  return bytes == 4 ? archive.load<uint32_t>(at) : archive.load<uint64_t>(at);
}

void check_index(uint64_t index, Run among, std::string_view what) {
  if (index < among.count) return;
  throw_corrupt(what, ": expected less than ", among.count, ", got ", index);
}

}  // namespace

uint64_t item_bytes(Type type) { return kItemBytes.at(static_cast<size_t>(type)); }

Footer::Footer(Bytes archive) : archive_(archive) {
  const auto [root, version] = check_footer(archive);
  version_ = version;
  if (is_6()) {
    blocks_ = archive_.run(root + Root6Layout::kBlocks);
    arrays_ = archive_.run(root + Root6Layout::kArrays);
    attribute_keys_ = archive_.run(root + Root6Layout::kStrings);
    attribute_values_ = archive_.run(root + Root6Layout::kAttributeValues);
    return;
  }
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

uint64_t Footer::array_at(uint64_t index) const {
  return arrays_.at + index * (is_6() ? Array6Layout::kLayout : ArrayLayout::kLayout).bytes;
}

ArrayRecord Footer::array(uint64_t index) const {
  const uint64_t at = array_at(index);
  ArrayRecord array{.name = archive_.text(at + ArrayLayout::kName),
                    .type = static_cast<Type>(archive_.load<uint8_t>(at + ArrayLayout::kType)),
                    .shape = archive_.run(at + ArrayLayout::kShape),
                    .dimension_names = archive_.run(at + ArrayLayout::kDimensionNames),
                    .chunk_shape = archive_.run(at + ArrayLayout::kChunkShape),
                    .chunks = archive_.run(at + ArrayLayout::kChunks),
                    .fill = std::nullopt,
                    .deleted = !is_6() && archive_.load<uint8_t>(at + ArrayLayout::kDeleted) == 1,
                    .attributes = at + (is_6() ? Array6Layout::kAttributes : ArrayLayout::kAttributes)};
  const bool has_statistics = is_6() && archive_.load<uint8_t>(at + Array6Layout::kHasStatistics) == 1;
  if (has_statistics) array.statistics = at + Array6Layout::kStatistics;
  const bool has_fill = archive_.load<uint8_t>(at + ArrayLayout::kHasFill) == 1;
  if (has_fill) array.fill = load_fill(archive_, at + ArrayLayout::kFill);
  return array;
}

std::string_view Footer::array_name(uint64_t index) const {
  return archive_.text(array_at(index) + ArrayLayout::kName);
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

uint64_t Footer::pair_width(const ArrayRecord& array) const {
  return is_6() ? 4 : uint64_t{2} << archive_.load<uint8_t>(array.attributes);
}

bool Footer::may_wrap(const ArrayRecord& array) const {
  return pair_width(array) == sizeof(uint16_t) && attribute_values_.count > (uint64_t{1} << 16);
}

std::vector<AttributePair> Footer::attribute_pairs(const ArrayRecord& array) const {
  const uint64_t width = pair_width(array);
  const Run run = archive_.run(array.attributes + (is_6() ? 0 : TaggedLayout::kPayload));
  std::vector<AttributePair> pairs(run.count);
  for (uint64_t i = 0; i < run.count; ++i) {
    const uint64_t at = run.at + i * 2 * width;
    pairs[i] = {load_unsigned(archive_, at, width), load_unsigned(archive_, at + width, width)};
  }
  return pairs;
}

std::vector<Attribute> Footer::attributes(const ArrayRecord& array) const {
  std::vector<Attribute> found;
  for (const AttributePair pair : attribute_pairs(array)) {
    const auto meaning = is_6() ? std::optional(attribute(pair)) : find_attribute(pair);
    if (meaning) found.push_back(*meaning);
  }
  return found;
}

std::optional<Attribute> Footer::find_attribute(AttributePair pair) const {
  if (pair.key >= attribute_keys_.count || pair.value >= attribute_values_.count) return std::nullopt;
  return attribute(pair);
}

Attribute Footer::attribute(AttributePair pair) const {
  check_index(pair.value, attribute_values_, "attribute value");
  const uint64_t at = attribute_values_.at + pair.value * TaggedLayout::kLayout.bytes;
  return {key_at(pair.key), load_tagged(at, std::make_index_sequence<kAttributeTags>{})};
}

std::string_view Footer::key_at(uint64_t index) const {
  check_index(index, attribute_keys_, is_6() ? "string" : "attribute key");
  return archive_.text(attribute_keys_.at + index * kStringSlot.bytes);
}

template <size_t... N>
AttributeValue Footer::load_tagged(uint64_t at, std::index_sequence<N...>) const {
  using Load = AttributeValue (*)(const Footer&, uint64_t);
  constexpr std::array<Load, sizeof...(N)> kLoad{[](const Footer& footer, uint64_t value) -> AttributeValue {
    return footer.load_value<std::variant_alternative_t<N, AttributeValue>>(value);
  }...};
  return kLoad.at(archive_.load<uint8_t>(at))(*this, at);
}

namespace {

template <typename T>
struct ItemOf {};
template <typename T>
struct ItemOf<std::vector<T>> {
  using Type = T;
};

}  // namespace

// Numbers stand at their own alignment after the tag.
template <typename T>
T Footer::load_value(uint64_t at) const {
  const uint64_t payload = at + TaggedLayout::kPayload;
  if constexpr (std::is_same_v<T, bool>) {
    return archive_.load<uint8_t>(at + 1) == 1;
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return is_6() ? key_at(archive_.load<uint32_t>(at + 4)) : archive_.text(payload);
  } else if constexpr (std::is_same_v<T, Bytes>) {
    const Run run = archive_.run(payload);
    return archive_.bytes().subspan(run.at, run.count);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return archive_.load<T>(at + alignof(T));
  } else {
    using Item = typename ItemOf<T>::Type;
    const Run run = archive_.run(payload);
    T list;
    list.reserve(run.count);
    for (uint64_t i = 0; i < run.count; ++i) {
      if constexpr (std::is_same_v<Item, bool>) {
        list.push_back(archive_.load<uint8_t>(run.at + i) == 1);
      } else if constexpr (std::is_same_v<Item, std::string_view>) {
        list.push_back(is_6() ? key_at(integer(run, i)) : archive_.text(run.at + i * kStringSlot.bytes));
      } else if constexpr (std::is_same_v<Item, Bytes>) {
        const Run item = archive_.run(run.at + i * kRun.bytes);
        list.push_back(archive_.bytes().subspan(item.at, item.count));
      } else {
        list.push_back(archive_.load<Item>(run.at + i * sizeof(Item)));
      }
    }
    return list;
  }
}

}  // namespace atompack::array_file
