#include "formats/array_file/layer/footer_check.h"

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/layer/records.h"

namespace atompack::array_file {
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

}  // namespace atompack::array_file
