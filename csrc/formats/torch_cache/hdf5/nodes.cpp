#include "formats/torch_cache/hdf5/nodes.h"

#include "formats/torch_cache/hdf5/btree.h"
#include "formats/torch_cache/hdf5/btree_v2.h"
#include "formats/torch_cache/hdf5/fractal_heap.h"

namespace atompack::torch_cache {
namespace {

std::string_view name_of(NodeKind kind) { return kind == NodeKind::group ? "a group" : "a data set"; }

// Finds one link of a group, which lie in its header, in a symbol table, or in a heap.
class LinkSearch {
 public:
  LinkSearch(const Hdf5File& file, const std::string& name) : file_(file), name_(name) {}

  // The address of the object's header.
  std::optional<uint64_t> run(const ObjectHeader& group) {
    for (const Message& message : group.messages()) {
      if (message.type == MessageType::link) look_at(message.cursor("link"));
    }
    if (const Message* const info = group.find(MessageType::link_info)) search_heap(info->cursor("link info"));
    if (const Message* const table = group.find(MessageType::symbol_table)) search_table(table->cursor("symbol table"));
    return found_;
  }

 private:
  static constexpr int kHard = 0;

  [[noreturn]] static void refuse(int kind) {
    throw UnsupportedFormatError(cat("expected a hard link, got one of type ", kind));
  }

  void look_at(MetadataCursor link) {
    link.version(1);
    const auto flags = link.read<uint8_t>();
    const int kind = (flags & 8) != 0 ? link.read<uint8_t>() : kHard;
    link.take(((flags & 4) != 0 ? 8 : 0) + ((flags & 16) != 0 ? 1 : 0));
    const uint64_t length = link.number(size_t{1} << (flags & 3));
    if (as_text(link.take(length)) != name_) return;
    if (kind != kHard) refuse(kind);
    found_ = link.read<uint64_t>();
  }

  void search_heap(MetadataCursor info) {
    info.version(0);
    info.take((info.read<uint8_t>() & 1) != 0 ? 8 : 0);
    const auto heap_address = info.read<uint64_t>();
    const auto names = info.read<uint64_t>();
    if (heap_address == Hdf5File::kNowhere || names == Hdf5File::kNowhere) return;
    const FractalHeap heap(file_, heap_address);
    constexpr uint64_t kHash = 4;
    for_each_record(file_, names, RecordKind::link_by_name, kHash + heap.id_bytes(), [&](MetadataCursor record) {
      record.take(kHash);
      look_at(heap.object(record));
    });
  }

  void search_table(MetadataCursor table) {
    const auto tree = table.read<uint64_t>();
    MetadataCursor heap = file_.at(table.read<uint64_t>(), 32, "local heap");
    heap.signature("HEAP");
    heap.version(0);
    heap.take(3);
    const auto length = heap.read<uint64_t>();
    heap.take(8);
    names_ = file_.at(heap.read<uint64_t>(), length, "local heap").rest();
    const auto visit = [this](Bytes, uint64_t address) { search_node(address); };
    OldBTree(file_, 0, 8, visit).walk(tree);
  }

  void search_node(uint64_t address) {
    constexpr uint32_t kSymbolic = 2;
    constexpr uint64_t kSymbol = 40;
    MetadataCursor node = file_.from(address, "symbol table node");
    node.signature("SNOD");
    node.version(1);
    node.take(1);
    const auto n_symbols = node.read<uint16_t>();
    n_bytes_ += n_symbols * kSymbol;
    if (n_bytes_ > file_.bytes().size()) node.fail("each node once", "many of the same bytes");
    for (int i = 0; i < n_symbols; ++i) {
      const auto name_at = node.read<uint64_t>();
      const auto header = node.read<uint64_t>();
      const auto cached = node.read<uint32_t>();
      node.take(20);
      if (!has_name(name_at, node)) continue;
      if (cached == kSymbolic) refuse(1);
      found_ = header;
    }
  }

  bool has_name(uint64_t at, const MetadataCursor& node) const {
    if (at >= names_.size()) node.fail(cat("a name in a heap of ", names_.size(), " bytes"), cat("one at ", at));
    const std::string_view rest = as_text(names_.subspan(at));
    return rest.size() > name_.size() && rest.starts_with(name_) && rest[name_.size()] == '\0';
  }

  const Hdf5File& file_;
  const std::string& name_;
  Bytes names_;
  uint64_t n_bytes_ = 0;  // of symbols
  std::optional<uint64_t> found_;
};

}  // namespace

Node Node::root_of(const Hdf5File& file) {
  Node root(file, "", ObjectHeader(file, file.root()));
  if (!root.header_.is_group()) throw CorruptFileError("/: expected a group, got an object of another kind");
  return root;
}

std::optional<Node> Node::find(const std::string& name, NodeKind kind) const {
  return at_path(path_of(name), [&]() -> std::optional<Node> {
    const std::optional<uint64_t> address = LinkSearch(*file_, name).run(header_);
    if (!address) return std::nullopt;
    Node node(*file_, path_of(name), ObjectHeader(*file_, *address));
    if (!(kind == NodeKind::group ? node.header_.is_group() : node.header_.is_dataset())) {
      throw CorruptFileError(cat("expected ", name_of(kind), ", got an object of another kind"));
    }
    return node;
  });
}

Node Node::need(const std::string& name, NodeKind kind) const {
  std::optional<Node> node = find(name, kind);
  if (!node) throw CorruptFileError(cat(path_of(name), ": expected ", name_of(kind), ", got none"));
  return std::move(*node);
}

}  // namespace atompack::torch_cache
