// Layers of one array file, oldest first, and resolution of arrays and chunks among them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/array.h"
#include "io/file_system.h"
#include "io/open_file.h"

namespace atompack::array_file {

// Files of one array file: its base and sidecars.
struct LayerFile {
  uint32_t number = 0;  // 0: the base
  io::Location file;

  const std::string& path() const { return file.path(); }
};

// The order of layers; other programs may write two with the same number.
inline bool is_older(const LayerFile& a, const LayerFile& b) {
  return std::tie(a.number, a.path()) < std::tie(b.number, b.path());
}

// Throws FieldError if `path` is not that of a base.
void check_base_path(const std::string& path);

// Lists all existing layers, oldest first; the base is included even if it does not exist. Throws IoError, FieldError
// if `base` has not the path of one. In a remote store that cannot list folders, sidecars are looked up by number,
// until four in a row do not exist.
std::vector<LayerFile> layer_files(const io::Location& base);
// The same without the base if it does not exist.
std::vector<LayerFile> existing_layers(const io::Location& base);

// The path of the sidecar with this number.
std::string sidecar_path(const std::string& base_path, uint32_t number);

// Const methods are thread-safe.
class Layers {
 public:
  explicit Layers(std::vector<Layer> layers);
  // The arrays of one name in independent segments, under the name of their segment.
  Layers(std::shared_ptr<const std::vector<Layer>> segments, std::string_view array,
         std::span<const std::string_view> names);

  // Names of the arrays that were not deleted, in order of first appearance.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // Also true for an array that has been deleted.
  bool holds_chunks_of(std::string_view name) const;
  // True if older layers hold chunks of an existing array that have a different number of axes: of a deleted array of
  // the same name. The original cannot read such an array.
  bool hold_chunks_of_other_rank() const;
  // Throws FieldError if there is no such array; CorruptFileError or UnsupportedFormatError if its records are
  // inconsistent.
  Array array(std::string_view name) const;
  // The record of an array that exists in a single layer and is not deleted.
  struct SingleRecord {
    uint32_t layer = 0;
    ArrayRecord record;
  };
  // `guess`: how many arrays are likely to precede it, of all that these layers have.
  std::optional<SingleRecord> find_single(std::string_view name, uint32_t guess = 0) const;
  // The records of an array, newest first, down to its last deletion.
  std::vector<SingleRecord> history(std::string_view name) const;

  size_t n_layers() const { return layers_->size(); }
  // Total size of all files.
  uint64_t file_bytes() const;
  const Layer& layer(uint32_t number) const { return (*layers_)[number]; }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // One array in one layer.
  struct Mention {
    uint32_t layer = 0;
    uint32_t older = kNone;  // the mention of the same array in the next older layer
    uint64_t index = 0;      // in the layer's footer
  };

  void mention(uint32_t layer, uint64_t index, std::string_view name);
  ArrayRecord record(const Mention& mention) const { return layer(mention.layer).footer().array(mention.index); }
  // The newest mention of an existing array, otherwise kNone.
  uint32_t find(std::string_view name) const;
  void describe(const Mention& mention, Array& array) const;
  std::vector<Attribute> attributes(uint32_t mention) const;
  void collect_chunks(uint32_t mention, Array& array) const;
  void add_chunks(const Mention& mention, const ArrayRecord& record, Array& array) const;
  bool same_layout(const Mention& mention, const ArrayRecord& record, const Array& array) const;

  std::shared_ptr<const std::vector<Layer>> layers_;
  std::vector<Mention> mentions_;
  std::vector<std::string_view> first_seen_;
  std::unordered_map<std::string_view, uint32_t> newest_;
};

// Base of an array file, whose lock covers all layers.

// Locks the base after creating it, without arrays, if it does not exist. Throws FieldError if `path` is not a base
// path, CorruptFileError if there are sidecars without a base.
std::unique_ptr<io::WritableFile> lock_base(io::FileSystem& files, const std::string& path);

}  // namespace atompack::array_file
