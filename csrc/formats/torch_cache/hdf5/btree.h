// B-trees of version 1, which list the links of a group or the chunks of a dataset: FORMAT.md#b-trees.
#pragma once

#include <functional>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

// Calls `visit` with the key before each entry of the leaves, of `key_bytes`, and its address. Throws CorruptFileError
// if nodes refer to each other in circles.
template <typename Visit>
class OldBTree {
 public:
  OldBTree(const Hdf5File& file, int kind, uint64_t key_bytes, Visit visit)
      : file_(file), kind_(kind), key_bytes_(key_bytes), visit_(std::move(visit)) {}

  void walk(uint64_t root) {
    if (root == Hdf5File::kNowhere) return;
    constexpr int kAnyLevel = -1;
    walk_node(root, kAnyLevel);
  }

 private:
  static constexpr uint64_t kHead = 24;

  void walk_node(uint64_t address, int expected_level) {
    MetadataCursor node = file_.from(address, "B-tree");
    node.signature("TREE");
    const int kind = node.template read<uint8_t>();
    const int level = node.template read<uint8_t>();
    if (kind != kind_) node.fail(cat("nodes of kind ", kind_), kind);
    if (expected_level >= 0 && level != expected_level) node.fail(cat("a node of level ", expected_level), level);
    const auto n_entries = node.template read<uint16_t>();
    // Each node has bytes of its own in an undamaged file.
    n_bytes_ += kHead + n_entries * (key_bytes_ + uint64_t{8});
    if (n_bytes_ > file_.bytes().size()) node.fail("nodes of its own", "circles of them");
    node.take(16);  // its siblings
    for (int i = 0; i < n_entries; ++i) {
      const Bytes key = node.take(key_bytes_);
      const auto child = node.template read<uint64_t>();
      if (level == 0) {
        visit_(key, child);
      } else {
        walk_node(child, level - 1);
      }
    }
  }

  const Hdf5File& file_;
  int kind_;
  uint64_t key_bytes_;
  Visit visit_;
  uint64_t n_bytes_ = 0;
};

// B-trees of version 2, which list links and attributes in a heap: FORMAT.md#b-trees.
enum class RecordKind : uint8_t { huge_object = 1, link_by_name = 5, attribute_by_name = 8 };

// Calls `visit` with each record, of at least `min_bytes`, and its offset in the file. Throws CorruptFileError if nodes
// refer to each other in circles.
void for_each_record(const Hdf5File& file, uint64_t tree, RecordKind kind, uint64_t min_bytes,
                     const std::function<void(MetadataCursor)>& visit);

}  // namespace atompack::torch_cache
