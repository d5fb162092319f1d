#include "formats/array_file/layer/footer_encoder.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "formats/array_file/layer/archive.h"
#include "formats/array_file/read/array.h"

namespace atompack::array_file {
namespace {

// Positions of the targets of an array's record.
struct Children {
  uint64_t name = 0, fill = 0;
  Run shape, dimension_names, chunk_shape, chunks, attributes;
  StatisticsTargets statistics;
};

// Keys and values of attributes, each there once. In version 6 strings of both kinds are in one list.
class Dictionaries {
 public:
  explicit Dictionaries(const LayerContents& contents) : is_6_(contents.version == kFooterVersion6) {
    const std::vector<const LayerArray*>& arrays = contents.arrays;
    for (const LayerArray* const array : arrays) {
      for (const Attribute& attribute : array->attributes) string(attribute.key);
    }
    for (const LayerArray* const array : arrays) {
      for (const Attribute& attribute : array->attributes) value(attribute.value);
    }
  }

  uint32_t string(std::string_view text) { return number_of(text, strings_, string_numbers_); }
  uint32_t value(const AttributeValue& value) {
    if (is_6_) std::visit([&](const auto& held) { see(held); }, value);
    std::string identity(1, static_cast<char>(value.index()));
    std::visit([&](const auto& held) { identify(held, identity); }, value);
    const auto [found, is_new] = value_numbers_.try_emplace(identity, static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(&value);
    return found->second;
  }

  bool is_6() const { return is_6_; }
  // Bytes of a number in the attributes of an array.
  uint64_t width() const {
    constexpr size_t kMaxEntries = size_t{1} << 16;
    return is_6_ || std::max(strings_.size(), values_.size()) > kMaxEntries ? sizeof(uint32_t) : sizeof(uint16_t);
  }

  Run put_all_strings(ArchiveWriter& archive) const { return archive.put_strings(strings_); }

  Run put_values(ArchiveWriter& archive) {
    std::vector<Run> targets;
    for (const AttributeValue* const value : values_) {
      targets.push_back(std::visit([&](const auto& held) { return put_target(archive, held); }, *value));
    }
    const Run run{archive.pad(TaggedLayout::kLayout.alignment), values_.size()};
    for (size_t i = 0; i < values_.size(); ++i) put_value(archive, *values_[i], targets[i]);
    return run;
  }

 private:
  using Numbers = std::unordered_map<std::string_view, uint32_t>;

  static uint32_t number_of(std::string_view text, std::vector<std::string_view>& all, Numbers& numbers) {
    const auto [found, is_new] = numbers.try_emplace(text, static_cast<uint32_t>(all.size()));
    if (is_new) all.push_back(text);
    return found->second;
  }

  // Numbers the strings of a value.
  template <typename T>
  void see(const T& value) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      string(value);
    } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
      for (const std::string_view text : value) string(text);
    }
  }

  // Appends what distinguishes values of one type.
  template <typename T>
  static void identify(const T& value, std::string& identity) {
    if constexpr (std::is_arithmetic_v<T>) {
      identity.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      identify(value.nanoseconds, identity);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      identify(value.size(), identity);
      identity += value;
    } else if constexpr (std::is_same_v<T, Bytes>) {
      identify(as_text(value), identity);
    } else {
      identify(value.size(), identity);
      for (const typename T::value_type item : value) identify(item, identity);
    }
  }

  // Appends the elements of a list, or a string of version 4; returns their place.
  template <typename T>
  Run put_target(ArchiveWriter& archive, const T& value) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      return {is_6_ ? 0 : archive.put_long_string(value), 0};
    } else if constexpr (std::is_same_v<T, Bytes>) {
      return {archive.put_bytes(value), value.size()};
    } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
      const Run run{archive.pad(kU32.alignment), value.size()};
      for (const std::string_view text : value) archive.put(string(text));
      return run;
    } else if constexpr (std::is_same_v<T, std::vector<Bytes>>) {
      std::vector<Run> items;
      for (const Bytes item : value) items.push_back({archive.put_bytes(item), item.size()});
      const Run run{archive.pad(sizeof(uint64_t)), items.size()};
      for (const Run item : items) archive.put_run(item);
      return run;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Timestamp>) {
      return {};
    } else {
      using Item = typename T::value_type;
      using Stored = std::conditional_t<std::is_same_v<Item, bool>, uint8_t, Item>;
      const Run run{archive.pad(sizeof(Stored)), value.size()};
      for (const Item item : value) archive.put(static_cast<Stored>(item));
      return run;
    }
  }

  void put_value(ArchiveWriter& archive, const AttributeValue& value, Run target) {
    const auto tag = static_cast<uint8_t>(value.index());
    const auto put_number = [&]<typename T>(T number) {
      archive.put(tag);
      archive.zeros(alignof(T) - sizeof(tag));
      archive.put(number);
      archive.zeros(TaggedLayout::kLayout.bytes - alignof(T) - sizeof(T));
    };
    const auto put = [&]<typename T>(const T& held) {
      if constexpr (std::is_arithmetic_v<T>) {
        put_number(held);
      } else if constexpr (std::is_same_v<T, std::string_view>) {
        if (is_6_) return put_number(string(held));
        archive.put(uint64_t{tag});
        archive.put_string(held, target.at);
      } else {
        archive.put(uint64_t{tag});
        archive.put_run(target);
      }
    };
    std::visit(put, value);
  }

  bool is_6_;
  std::vector<std::string_view> strings_;
  Numbers string_numbers_;
  std::vector<const AttributeValue*> values_;
  std::unordered_map<std::string, uint32_t> value_numbers_;
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

// Numbers of keys and values, by key.
Run put_attributes(ArchiveWriter& archive, const std::vector<Attribute>& attributes, Dictionaries& dictionaries) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Attribute& attribute : attributes) {
    pairs.emplace_back(dictionaries.string(attribute.key), dictionaries.value(attribute.value));
  }
  std::ranges::sort(pairs);
  const bool is_wide = dictionaries.width() == sizeof(uint32_t);
  const Run run{archive.pad(dictionaries.width()), pairs.size()};
  for (const auto& [key, value] : pairs) {
    for (const uint32_t number : {key, value}) {
      is_wide ? archive.put(number) : archive.put(static_cast<uint16_t>(number));
    }
  }
  return run;
}

Children put_children(ArchiveWriter& archive, const LayerArray& array, Dictionaries& dictionaries) {
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
  at.attributes = put_attributes(archive, array.attributes, dictionaries);
  if (dictionaries.is_6() && array.statistics) at.statistics = put_targets(archive, definition.name, *array.statistics);
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

void put_array(ArchiveWriter& archive, const LayerArray& array, const Children& at, const Dictionaries& dictionaries) {
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
  if (dictionaries.is_6()) {
    archive.put_run(at.attributes);
    archive.put(uint64_t{array.statistics.has_value()});
    if (array.statistics) return put_statistics(archive, definition.name, *array.statistics, at.statistics);
    return archive.zeros(Array6Layout::kLayout.bytes - Array6Layout::kStatistics);
  }
  archive.put(uint64_t{array.deleted});
  archive.put(uint64_t{dictionaries.width() == sizeof(uint32_t)});  // tag of pairs of u16 or u32
  archive.put_run(at.attributes);
}

Run put_arrays(ArchiveWriter& archive, const std::vector<const LayerArray*>& arrays, Dictionaries& dictionaries) {
  std::vector<Children> children;
  children.reserve(arrays.size());
  for (const LayerArray* const array : arrays) {
    children.push_back(put_children(archive, *array, dictionaries));
  }
  const Run run{archive.pad(ArrayLayout::kLayout.alignment), arrays.size()};
  for (size_t i = 0; i < arrays.size(); ++i) {
    put_array(archive, *arrays[i], children[i], dictionaries);
  }
  return run;
}

std::vector<std::byte> encode_footer6(const LayerContents& contents) {
  ArchiveWriter archive;
  Dictionaries dictionaries(contents);
  const Run blocks = put_blocks(archive, contents.blocks);
  const Run strings = dictionaries.put_all_strings(archive);
  const Run values = dictionaries.put_values(archive);
  const Run arrays = put_arrays(archive, contents.arrays, dictionaries);
  archive.pad(Root6Layout::kLayout.alignment);
  archive.put(uint64_t{kFooterVersion6});
  for (const Run run : {blocks, strings, values, arrays}) archive.put_run(run);
  return archive.take();
}

}  // namespace

std::vector<std::byte> encode_footer(const LayerContents& contents) {
  if (contents.version == kFooterVersion6) return encode_footer6(contents);
  ArchiveWriter archive;
  const Run blocks = put_blocks(archive, contents.blocks);
  Dictionaries dictionaries(contents);
  const Run arrays = put_arrays(archive, contents.arrays, dictionaries);
  const Run keys = dictionaries.put_all_strings(archive);
  const Run values = dictionaries.put_values(archive);
  const uint64_t hint = archive.put_long_string(contents.base_hint);
  archive.pad(RootLayout::kLayout.alignment);
  archive.put(uint64_t{kFooterVersion});
  for (const Run run : {blocks, arrays, keys, values}) archive.put_run(run);
  archive.put(uint64_t{contents.number});
  archive.put_string(contents.base_hint, hint);
  return archive.take();
}

std::vector<std::byte> encode_layer_end(const LayerContents& contents) {
  return with_trailer(encode_footer(contents), kLayerMagic);
}

}  // namespace atompack::array_file
