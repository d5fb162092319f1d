#include "formats/torch_cache/hdf5/btree.h"

#include <bit>
#include <vector>

#include "base/checked_math.h"

namespace atompack::torch_cache {
namespace {

constexpr std::string_view kTree = "B-tree";
constexpr uint64_t kTreeHeaderBytes = 38;
constexpr uint64_t kTreeNodeBytes = 10;  // signature, version, kind and checksum

class Walk {
 public:
  Walk(const Hdf5File& file, RecordKind kind, const std::function<void(MetadataCursor)>& visit)
      : file_(file), kind_(kind), visit_(visit) {}

  void run(uint64_t tree, uint64_t min_bytes) {
    MetadataCursor header = file_.checked(tree, kTreeHeaderBytes, kTree);
    header.signature("BTHD");
    header.version(0);
    check_kind(header);
    node_bytes_ = header.read<uint32_t>();
    record_bytes_ = header.read<uint16_t>();
    const size_t depth = header.read<uint16_t>();
    header.take(2);
    const auto root = header.read<uint64_t>();
    const uint64_t n_records = header.read<uint16_t>();
    if (record_bytes_ < min_bytes) header.fail(cat("records of ", min_bytes, " bytes"), record_bytes_);
    if (node_bytes_ < kTreeNodeBytes + record_bytes_) header.fail("nodes of at least one record", node_bytes_);
    plan(depth, header);
    if (root != Hdf5File::kNowhere) walk(root, n_records, depth);
  }

 private:
  struct Level {
    uint64_t max_records, max_below;  // in a node, and in it and below it
  };

  void check_kind(MetadataCursor& cursor) const {
    const auto kind = cursor.read<uint8_t>();
    if (kind != static_cast<uint8_t>(kind_)) {
      cursor.fail(cat("records of kind ", static_cast<int>(kind_)), static_cast<int>(kind));
    }
  }

  // The widths of counts follow from what nodes of each level can hold.
  void plan(size_t depth, const MetadataCursor& header) {
    const uint64_t in_leaf = (node_bytes_ - kTreeNodeBytes) / record_bytes_;
    levels_.push_back({in_leaf, in_leaf});
    count_width_ = bytes_for(in_leaf);
    for (size_t level = 1; level <= depth; ++level) {
      const Level& below = levels_.back();
      const uint64_t child = kAddressBytes + count_width_ + total_width(level);
      if (node_bytes_ < kTreeNodeBytes + child + record_bytes_ + child) {
        header.fail("nodes of at least one record", node_bytes_);
      }
      const uint64_t most = (node_bytes_ - kTreeNodeBytes - child) / (record_bytes_ + child);
      levels_.push_back({most, checked_add(checked_mul(most + 1, below.max_below, kTree), most, kTree)});
    }
  }

  // Bytes of the count of all records below a child of a node of this level.
  size_t total_width(size_t level) const { return level <= 1 ? 0 : bytes_for(levels_[level - 1].max_below); }

  void walk(uint64_t address, uint64_t n_records, size_t level) {
    if (n_records > levels_[level].max_records) {
      throw CorruptFileError(
          cat("B-tree: expected at most ", levels_[level].max_records, " records in a node, got ", n_records),
          file_.base() + address);
    }
    const uint64_t child = kAddressBytes + count_width_ + total_width(level);
    const uint64_t length = kTreeNodeBytes + n_records * record_bytes_ + (level == 0 ? 0 : (n_records + 1) * child);
    MetadataCursor node = file_.checked(address, length, kTree);
    n_bytes_ += length;  // each node has bytes of its own in an undamaged file
    if (n_bytes_ > file_.bytes().size()) node.fail("nodes of its own", "circles of them");
    node.signature(level == 0 ? "BTLF" : "BTIN");
    node.version(0);
    check_kind(node);
    for (uint64_t i = 0; i < n_records; ++i) {
      const uint64_t at = node.offset();
      visit_(MetadataCursor(node.take(record_bytes_), at, kTree));
    }
    if (level == 0) return;
    for (uint64_t i = 0; i <= n_records; ++i) {
      const auto below = node.read<uint64_t>();
      const uint64_t count = node.number(count_width_);
      node.take(total_width(level));
      walk(below, count, level - 1);
    }
  }

  const Hdf5File& file_;
  RecordKind kind_;
  const std::function<void(MetadataCursor)>& visit_;
  uint64_t node_bytes_ = 0;
  uint64_t record_bytes_ = 0;
  size_t count_width_ = 0;
  std::vector<Level> levels_;
  uint64_t n_bytes_ = 0;
};

}  // namespace

void for_each_record(const Hdf5File& file, uint64_t tree, RecordKind kind, uint64_t min_bytes,
                     const std::function<void(MetadataCursor)>& visit) {
  Walk(file, kind, visit).run(tree, min_bytes);
}

}  // namespace atompack::torch_cache
