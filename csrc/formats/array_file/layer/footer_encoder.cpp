#include "formats/array_file/layer/footer_encoder.h"

#include "formats/array_file/layer/archive.h"
#include "formats/array_file/read/array.h"

namespace atompack::array_file {
namespace {

// Positions of the targets of an array's record.
struct Children {
  uint64_t name = 0, fill = 0;
  Run shape, dimension_names, chunk_shape, chunks, attributes;
};

void put_block(ArchiveWriter& archive, const BlockRecord& block) {
  archive.put(uint64_t{block.id});
  archive.put(block.offset);
  archive.put(block.stored_bytes);
  archive.put(block.decoded_bytes);
  archive.put(uint64_t{block.codec.has_value()});
  if (block.codec) {
    archive.put_string(*block.codec, archive.size());  // the known names fit in a slot
  } else {
    archive.zeros(kStringSlot.bytes);
  }
}

Run put_blocks(ArchiveWriter& archive, const std::vector<BlockRecord>& blocks) {
  const Run run{archive.pad(BlockLayout::kLayout.alignment), blocks.size()};
  for (const BlockRecord& block : blocks) put_block(archive, block);
  return run;
}

Run put_chunks(ArchiveWriter& archive, const LayerArray& array) {
  std::vector<Run> coordinates;
  if (!array.chunks.empty()) {
    const Grid grid(array.definition.shape, array.definition.chunk_shape);
    for (const PlacedChunk& chunk : array.chunks) {
      coordinates.push_back(archive.put_integers(grid.cell_at(chunk.cell)));
    }
  }
  const Run run{archive.pad(ChunkLayout::kLayout.alignment), array.chunks.size()};
  for (size_t i = 0; i < array.chunks.size(); ++i) {
    const ChunkPlace& place = array.chunks[i].place;
    archive.put_run(coordinates[i]);
    archive.put(place.block);
    archive.put(place.offset);
    archive.put(place.bytes);
    archive.zeros(sizeof(uint32_t));
  }
  return run;
}

Children put_children(ArchiveWriter& archive, const LayerArray& array) {
  const ArrayDefinition& definition = array.definition;
  Children at;
  at.name = archive.put_long_string(definition.name);
  at.shape = archive.put_integers(definition.shape);
  at.dimension_names = archive.put_strings(definition.dimension_names);
  at.chunk_shape = archive.put_integers(definition.chunk_shape);
  at.chunks = put_chunks(archive, array);
  if (definition.fill) {
    const auto* const text = std::get_if<std::string>(&*definition.fill);
    at.fill = archive.put_long_string(text != nullptr ? *text : "");
  }
  at.attributes = {archive.pad(sizeof(uint16_t)), 0};
  return at;
}

// Writes a tag and its value.
void put_fill(ArchiveWriter& archive, const OwnedFill& fill, uint64_t string_at) {
  const auto tag = static_cast<uint8_t>(fill.index());
  if (const auto* const boolean = std::get_if<bool>(&fill)) {
    archive.put(tag);
    archive.put(static_cast<uint8_t>(*boolean));
    archive.zeros(TaggedLayout::kLayout.bytes - 2);
    return;
  }
  archive.put(uint64_t{tag});
  const auto put_payload = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      archive.put_string(value, string_at);
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      archive.put(value.nanoseconds);
    } else {
      archive.put(value);
    }
  };
  std::visit(put_payload, fill);
  if (!std::holds_alternative<std::string>(fill)) archive.zeros(sizeof(uint64_t));
}

void put_array(ArchiveWriter& archive, const LayerArray& array, const Children& at) {
  const ArrayDefinition& definition = array.definition;
  archive.put_string(definition.name, at.name);
  archive.put(uint64_t{static_cast<uint8_t>(definition.type)});
  archive.zeros(TaggedLayout::kLayout.bytes - sizeof(uint64_t));
  archive.put_run(at.shape);
  archive.put_run(at.dimension_names);
  archive.put_run(at.chunk_shape);
  archive.put_run(at.chunks);
  archive.put(uint64_t{definition.fill.has_value()});
  definition.fill ? put_fill(archive, *definition.fill, at.fill) : archive.zeros(TaggedLayout::kLayout.bytes);
  archive.put(uint64_t{array.deleted});
  archive.put(uint64_t{0});  // attributes: pairs of u16
  archive.put_run(at.attributes);
}

Run put_arrays(ArchiveWriter& archive, const std::vector<const LayerArray*>& arrays) {
  std::vector<Children> children;
  children.reserve(arrays.size());
  for (const LayerArray* const array : arrays) children.push_back(put_children(archive, *array));
  const Run run{archive.pad(ArrayLayout::kLayout.alignment), arrays.size()};
  for (size_t i = 0; i < arrays.size(); ++i) put_array(archive, *arrays[i], children[i]);
  return run;
}

}  // namespace

std::vector<std::byte> encode_footer(const LayerContents& contents) {
  ArchiveWriter archive;
  const Run blocks = put_blocks(archive, contents.blocks);
  const Run arrays = put_arrays(archive, contents.arrays);
  const Run nothing{archive.pad(RootLayout::kLayout.alignment), 0};
  const uint64_t hint = archive.put_long_string(contents.base_hint);
  archive.pad(RootLayout::kLayout.alignment);
  archive.put(uint64_t{kFooterVersion});
  archive.put_run(blocks);
  archive.put_run(arrays);
  archive.put_run(nothing);  // attribute keys
  archive.put_run(nothing);  // attribute values
  archive.put(uint64_t{contents.number});
  archive.put_string(contents.base_hint, hint);
  return archive.take();
}

std::vector<std::byte> encode_layer_end(const LayerContents& contents) {
  return with_trailer(encode_footer(contents), kLayerMagic);
}

}  // namespace atompack::array_file
