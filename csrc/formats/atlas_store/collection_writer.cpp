#include "formats/atlas_store/collection_writer.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codec/zstd_codec.h"
#include "formats/array_file/layer/layer_writer.h"
#include "formats/atlas_store/collection.h"
#include "formats/atlas_store/metadata/document.h"
#include "serial/msgpack/writer.h"

namespace atompack::atlas_store {
namespace {

using array_file::Array;
using array_file::LayerArray;

// The end of a container that is being written, as a file of its own.
class Segment final : public io::NewFile {
 public:
  Segment(io::NewFile& whole, uint64_t begin) : whole_(whole), begin_(begin) {}

  const std::string& path() const override { return whole_.path(); }
  uint64_t size() const override { return whole_.size() - begin_; }
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
    return whole_.read_at(begin_ + offset, into);
  }
  void write_at(uint64_t offset, Bytes bytes) override { whole_.write_at(begin_ + offset, bytes); }
  void start_writing_back(uint64_t offset, uint64_t length) override {
    whole_.start_writing_back(begin_ + offset, length);
  }
  // What follows is done once for the whole file.
  void truncate(uint64_t) override {}
  void sync_data() override {}
  void sync() override {}
  void publish(bool) override {}
  bool is_published() const override { return false; }
  void leave() override {}

 private:
  io::NewFile& whole_;
  uint64_t begin_;
};

// Values that are numbered in order of first appearance.
class Pool {
 public:
  uint32_t number(const std::string& value) {
    const auto [found, is_new] = numbers_.try_emplace(value, static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(value);
    return found->second;
  }
  const std::vector<std::string>& values() const { return values_; }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> values_;
};

DataType type_of(const array_file::AttributeValue& value) {
  constexpr size_t kFirstList = 13;
  if (std::holds_alternative<array_file::Timestamp>(value)) return {array_file::Type::timestamp, {}};
  if (value.index() < kFirstList) return {static_cast<array_file::Type>(value.index()), {}};
  return {static_cast<array_file::Type>(value.index() - kFirstList), {std::nullopt}};
}

std::string encoded(const DataType& type) {
  serial::MsgpackWriter out;
  for (size_t i = 0; i < type.lists.size(); ++i) {
    out.map(1);
    out.key(kList);
    out.list(1);
  }
  out.text(spelling_of(kTypes, type.element));
  return out.take();
}

std::string encoded_list(size_t n) {
  serial::MsgpackWriter out;
  out.list(n);
  return out.take();
}

std::string encoded(uint64_t number) {
  serial::MsgpackWriter out;
  out.natural(number);
  return out.take();
}

std::string encoded(std::string_view text) {
  serial::MsgpackWriter out;
  out.text(text);
  return out.take();
}

std::string encoded(const std::vector<std::string>& items) {
  std::string out = encoded_list(items.size());
  for (const std::string& item : items) out += item;
  return out;
}

std::string encoded_pair(uint64_t first, std::string_view second) {
  return encoded_list(2) + encoded(first) + std::string(second);
}

class CollectionWriter {
 public:
  CollectionWriter(const Store& store, std::span<const uint32_t> datasets, const CollectionOptions& options,
                   io::NewFile& file)
      : store_(store), datasets_(datasets), options_(options), file_(file) {}

  void write() {
    std::vector<std::byte> head;
    append(head, as_bytes(kCollectionMagic));
    append_le(head, kByVariable);
    file_.write_at(0, head);
    for (const uint32_t dataset : datasets_) described_.push_back(describe(dataset));
    for (uint32_t variable = 0; variable < store_.metadata().n_variables(); ++variable) write_variable(variable);
    write_attributes();
    write_footer();
    file_.sync();
    file_.publish(false);
  }

 private:
  struct Described {
    std::string_view name;
    AttributeList own;
    std::vector<AttributeList> of_arrays;  // in the order of its arrays
    uint32_t schema = 0;
  };

  static constexpr uint64_t kHeaderBytes = 8;

  Described describe(uint32_t dataset) {
    Described found;
    found.name = store_.metadata().dataset_name(dataset);
    found.own = store_.attributes(dataset);
    check_dataset_name(found.name);
    std::vector<std::string> arrays, of_arrays;
    for (const Entry& entry : store_.metadata().arrays(dataset)) {
      const std::string_view name = store_.metadata().variable_name(entry.variable);
      check_dataset_name(name);
      const DataType& type = store_.metadata().schema(entry.schema).dtype;
      arrays.push_back(encoded_pair(strings_.number(std::string(name)), encoded(dtypes_.number(encoded(type)))));
      found.of_arrays.push_back(store_.attributes(entry.variable, dataset));
    }
    if (!store_.has_array_attributes()) move_to_arrays(dataset, found);
    std::string schema = encoded_list(3) + encoded(arrays) + declare(found.own);
    for (size_t i = 0; i < found.of_arrays.size(); ++i) {
      if (!found.of_arrays[i].values.empty()) of_arrays.push_back(encoded_pair(i, declare(found.of_arrays[i])));
    }
    found.schema = schemas_.number(schema + encoded(of_arrays));
    return found;
  }

  // The longest name of an array counts.
  void move_to_arrays(uint32_t dataset, Described& described) const {
    std::vector<array_file::Attribute> own;
    const std::span<const Entry> entries = store_.metadata().arrays(dataset);
    for (array_file::Attribute& attribute : described.own.values) {
      size_t owner = entries.size(), length = 0;
      for (size_t i = 0; i < entries.size(); ++i) {
        const std::string prefix = cat(store_.metadata().variable_name(entries[i].variable), '.');
        if (prefix.size() <= length || !attribute.key.starts_with(prefix)) continue;
        owner = i;
        length = prefix.size();
      }
      attribute.key.remove_prefix(length);
      std::vector<array_file::Attribute>& into = owner == entries.size() ? own : described.of_arrays[owner].values;
      std::erase_if(into, [&](const array_file::Attribute& other) { return other.key == attribute.key; });
      into.push_back(std::move(attribute));
    }
    described.own.values = std::move(own);
  }

  // Keys and types, encoded. Timestamps become strings, since values have no type for them.
  std::string declare(AttributeList& list) {
    std::vector<std::string> declared;
    for (array_file::Attribute& attribute : list.values) {
      const uint32_t type = dtypes_.number(encoded(type_of(attribute.value)));
      declared.push_back(encoded_pair(strings_.number(std::string(attribute.key)), encoded(type)));
      const auto* const at = std::get_if<array_file::Timestamp>(&attribute.value);
      if (at != nullptr) attribute.value = std::string_view(moments_.emplace_back(format_timestamp(*at)));
    }
    return encoded(declared);
  }

  void write_variable(uint32_t variable) {
    std::deque<LayerArray> arrays;
    std::unique_ptr<array_file::LayerWriter> writer;
    for (size_t i = 0; i < datasets_.size(); ++i) {
      const std::span<const Entry> entries = store_.metadata().arrays(datasets_[i]);
      const auto entry = std::ranges::find(entries, variable, &Entry::variable);
      if (entry == entries.end()) continue;
      if (!writer) writer = open_segment();
      arrays.push_back(copy(variable, datasets_[i], *writer));
      arrays.back().attributes = described_[i].of_arrays[static_cast<size_t>(entry - entries.begin())].values;
    }
    if (writer) close_segment(*writer, store_.metadata().variable_name(variable), arrays);
  }

  // Attributes of datasets are those of an array without values.
  void write_attributes() {
    std::deque<LayerArray> arrays;
    for (const Described& dataset : described_) {
      if (dataset.own.values.empty()) continue;
      LayerArray& array = arrays.emplace_back();
      array.definition = {.name = std::string(dataset.name), .type = array_file::Type::uint8};
      array.attributes = dataset.own.values;
      array.statistics.emplace();
      array.statistics->n_null = array.statistics->n_rows = 1;
    }
    if (!arrays.empty()) close_segment(*open_segment(), kCollectionAttributes, arrays);
  }

  std::unique_ptr<array_file::LayerWriter> open_segment() {
    constexpr uint64_t kBlockBytes = uint64_t{8} << 20;
    return std::make_unique<array_file::LayerWriter>(std::make_unique<Segment>(file_, end_),
                                                     array_file::LayerOptions{.codec = options_.codec,
                                                                              .level = options_.level,
                                                                              .block_bytes = kBlockBytes,
                                                                              .n_threads = options_.n_threads,
                                                                              .version = array_file::kFooterVersion6});
  }

  void close_segment(array_file::LayerWriter& writer, std::string_view name, const std::deque<LayerArray>& arrays) {
    std::vector<const LayerArray*> pointers;
    for (const LayerArray& array : arrays) pointers.push_back(&array);
    writer.finish(std::move(pointers), 0, "");
    const uint64_t length = file_.size() - end_;
    segments_.push_back(encoded_list(3) + encoded(strings_.number(std::string(name))) + encoded(end_) +
                        encoded(length));
    end_ += length;
  }

  LayerArray copy(uint32_t variable, uint32_t dataset, array_file::LayerWriter& writer) {
    const Array array = store_.array(variable, dataset);
    const array_file::Layers& layers = store_.layers(variable);
    static_cast<void>(array_file::column_type(array.type));
    LayerArray made;
    made.definition = array_file::definition_of(array);
    if (made.definition.chunk_shape.size() != array.shape.size()) made.definition.chunk_shape = array.shape;
    for (uint64_t& extent : made.definition.chunk_shape) extent = std::max<uint64_t>(extent, 1);
    const uint64_t n_rows = array.n_elements();
    const array_file::Grid grid(array.shape, made.definition.chunk_shape);
    array_file::Summary summary(array.type, made.definition.fill);
    if (n_rows > 0 && array.chunks.size() < grid.n_cells()) {
      array_file::check_cells_are_known(layers, array.foreign_layer);
    }
    for (const array_file::StoredChunk& chunk : array.chunks) {
      if (n_rows == 0) break;
      const Bytes bytes = layers.layer(chunk.layer).read(chunk.chunk, last_);
      array_file::in_array(layers.layer(chunk.layer).path(), array.name,
                           [&] { summary.add(bytes, grid.box_of(grid.cell_at(chunk.cell)).n_elements()); });
      made.chunks.push_back({chunk.cell, writer.append(bytes, grid.n_cells())});
    }
    made.statistics = summary.statistics(n_rows);
    return made;
  }

  void write_footer() {
    using std::chrono::milliseconds, std::chrono::system_clock;
    const auto now = std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
    std::vector<std::string> datasets, strings;
    for (const Described& dataset : described_) {
      datasets.push_back(encoded_list(2) + encoded(dataset.name) + encoded(dataset.schema));
    }
    for (const std::string& text : strings_.values()) strings.push_back(encoded(std::string_view(text)));
    std::string footer = encoded_list(8) + encoded(uint64_t{kByVariable}) +
                         encoded(spelling_of(kCodecs, options_.codec)) + encoded(static_cast<uint64_t>(now));
    for (const auto& list : {strings, dtypes_.values(), schemas_.values(), segments_, datasets})
      footer += encoded(list);
    std::vector<std::byte> stored(codec::zstd_compressed_bound(footer.size()));
    stored.resize(codec::zstd_compress(3, as_bytes(footer), stored));
    append_le(stored, uint64_t{stored.size()}, kByVariable);
    append(stored, as_bytes(kCollectionMagic));
    file_.write_at(end_, stored);
  }

  const Store& store_;
  std::span<const uint32_t> datasets_;
  const CollectionOptions& options_;
  io::NewFile& file_;
  uint64_t end_ = kHeaderBytes;
  Pool strings_, dtypes_, schemas_;
  std::vector<std::string> segments_;
  std::vector<Described> described_;
  std::deque<std::string> moments_;
  array_file::DecodedBlock last_;
};

}  // namespace

void write_collection(const Store& store, std::span<const uint32_t> datasets, const std::string& path,
                      const CollectionOptions& options, io::FileSystem& files) {
  in_file(store.path(), [&] {
    const std::unique_ptr<io::NewFile> file = files.create(path);
    CollectionWriter(store, datasets, options, *file).write();
  });
}

}  // namespace atompack::atlas_store
