// The layers of one array file, oldest first: which array and which chunk of it counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/array.h"

namespace atompack::array_file {

// Const methods are thread-safe.
class Layers {
 public:
  explicit Layers(std::vector<Layer> layers);

  // Of the arrays that were not deleted, in the order in which they first appear.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // Also those of an array that was deleted since.
  bool holds_chunks_of(std::string_view name) const;
  // Throws FieldError if there is no such array; CorruptFileError or UnsupportedFormatError if it contradicts itself.
  Array array(std::string_view name) const;
  // The one record of an array that a single layer names, and that is not deleted.
  struct Sole {
    uint32_t layer = 0;
    ArrayRecord record;
  };
  std::optional<Sole> sole(std::string_view name) const;
  size_t n_layers() const { return layers_.size(); }
  // Bytes of all files together.
  uint64_t file_bytes() const;
  const Layer& layer(uint32_t number) const { return layers_[number]; }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // One array of one layer.
  struct Mention {
    uint32_t layer = 0;
    uint32_t older = kNone;  // the mention of the same array in the next older layer
    uint64_t index = 0;      // in the layer's footer
  };

  void mention(uint32_t layer, uint64_t index);
  ArrayRecord record(const Mention& mention) const { return layers_[mention.layer].footer().array(mention.index); }
  // The newest mention of an array that exists, else kNone.
  uint32_t find(std::string_view name) const;
  void describe(const Mention& mention, Array& array) const;
  void collect_chunks(uint32_t mention, Array& array) const;
  void add_chunks(const Mention& mention, const ArrayRecord& record, Array& array) const;
  bool same_layout(const Mention& mention, const ArrayRecord& record, const Array& array) const;

  std::vector<Layer> layers_;
  std::vector<Mention> mentions_;
  std::vector<std::string_view> first_seen_;
  std::unordered_map<std::string_view, uint32_t> newest_;
};

}  // namespace atompack::array_file
