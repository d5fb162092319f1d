#include "formats/torch_cache/hdf5/nodes.h"

#include <algorithm>

#include "formats/torch_cache/hdf5/btree.h"
#include "formats/torch_cache/hdf5/fractal_heap.h"

namespace atompack::torch_cache {

constexpr std::string_view kHeader = "object header";
constexpr std::string_view kContinued = "header continuation";
// A header of this format has one or two blocks; each block may refer to others, even to itself.
constexpr size_t kMaxBlocks = 64;
constexpr int kShared = 2;
// Those that are read; others may be anywhere.
constexpr MessageType kNeeded[] = {MessageType::dataspace, MessageType::link_info,    MessageType::datatype,
                                   MessageType::link,      MessageType::layout,       MessageType::filters,
                                   MessageType::attribute, MessageType::symbol_table, MessageType::attribute_info};

ObjectHeader::ObjectHeader(const Hdf5File& file, uint64_t address, bool follows_references)
    : file_(file), follows_references_(follows_references) {
  is_new_ = as_text(file.at(address, 4, kHeader).rest()) == "OHDR";
  if (is_new_) {
    start_new(address);
  } else {
    start_old(address);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (i == kMaxBlocks) {
      throw CorruptFileError(cat("object header: more than ", kMaxBlocks, " blocks"), file.base() + address);
    }
    read_block(blocks_[i]);
  }
}

void ObjectHeader::start_old(uint64_t address) {
  constexpr uint64_t kPrefix = 16;
  MetadataCursor head = file_.at(address, kPrefix, kHeader);
  if (const int version = head.read<uint8_t>(); version != 1) {
    throw UnsupportedFormatError(cat("object header: expected version 1 or 2, got ", version), head.offset() - 1);
  }
  head.take(7);
  blocks_.push_back(file_.at(address + kPrefix, head.read<uint32_t>(), kHeader));
}

// Times, limits and the width of its size depend on flags.
void ObjectHeader::start_new(uint64_t address) {
  MetadataCursor head = file_.from(address, kHeader);
  const uint64_t start = head.offset();
  head.signature("OHDR");
  head.version(2);
  const auto flags = head.read<uint8_t>();
  has_order_ = (flags & 4) != 0;
  head.take(((flags & 32) != 0 ? 16 : 0) + ((flags & 16) != 0 ? 4 : 0));
  const uint64_t length = head.number(size_t{1} << (flags & 3));
  const uint64_t prefix = head.offset() - start;
  if (head.remaining() < kChecksumBytes || length > head.remaining() - kChecksumBytes)
    head.fail(cat(length, " bytes"), head.remaining());
  MetadataCursor block = file_.checked(address, prefix + length + kChecksumBytes, kHeader);
  block.take(prefix);
  blocks_.push_back(block);
}

void ObjectHeader::read_block(MetadataCursor block) {
  const uint64_t head = !is_new_ ? 8 : has_order_ ? 6 : 4;
  while (block.remaining() >= head) {
    const uint64_t at = block.offset();
    const Bytes prefix = block.take(head);
    const auto type = is_new_ ? static_cast<uint16_t>(prefix[0]) : load_le<uint16_t>(prefix.data());
    const auto size = load_le<uint16_t>(prefix.data() + (is_new_ ? 1 : 2));
    const auto flags = static_cast<int>(prefix[is_new_ ? 3 : 4]);
    if (size > block.remaining()) {
      throw CorruptFileError(cat("header message: expected at most ", block.remaining(), " bytes, got ", size), at);
    }
    const uint64_t place = block.offset();
    add({static_cast<MessageType>(type), block.take(size), place}, flags);
  }
}

void ObjectHeader::add(const Message& message, int flags) {
  if (message.type == MessageType::continuation) return follow(message);
  if ((flags & kShared) == 0) {
    messages_.push_back(message);
  } else if (message.type == MessageType::datatype && follows_references_) {
    messages_.push_back(shared_datatype(file_, message.cursor("shared message")));
  } else if (std::ranges::find(kNeeded, message.type) != std::end(kNeeded)) {
    throw UnsupportedFormatError(
        cat("header message: expected one in its place, got a shared one of type ", static_cast<int>(message.type)),
        message.at);
  }
}

void ObjectHeader::follow(const Message& continuation) {
  MetadataCursor cursor = continuation.cursor(kContinued);
  const auto address = cursor.read<uint64_t>();
  const auto length = cursor.read<uint64_t>();
  if (!is_new_) return blocks_.push_back(file_.at(address, length, kContinued));
  if (length < 8) cursor.fail("at least 8 bytes", length);
  MetadataCursor block = file_.checked(address, length, kContinued);
  block.signature("OCHK");
  blocks_.push_back(block);
}

const Message* ObjectHeader::find(MessageType type) const {
  const auto found = std::ranges::find(messages_, type, &Message::type);
  return found == messages_.end() ? nullptr : &*found;
}

const Message& ObjectHeader::need(MessageType type, std::string_view name) const {
  if (const Message* const found = find(type)) return *found;
  throw_corrupt("object header: expected a ", name, ", got none");
}

Message shared_datatype(const Hdf5File& file, MetadataCursor reference) {
  constexpr int kInHeap = 1;
  const int version = reference.read<uint8_t>();
  const int kind = reference.read<uint8_t>();
  if (version < 1 || version > 3 || (version == 3 && kind == kInHeap)) {
    throw UnsupportedFormatError(
        cat("shared message: expected one in the header of an object, got version ", version, " of kind ", kind),
        reference.offset());
  }
  if (version == 1) reference.take(6);
  const ObjectHeader header(file, reference.read<uint64_t>(), false);
  return header.need(MessageType::datatype, "datatype");
}

namespace {

std::string_view name_of(NodeKind kind) { return kind == NodeKind::group ? "a group" : "a dataset"; }

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
  return at_field(path_of(name), [&]() -> std::optional<Node> {
    const std::optional<uint64_t> address = LinkSearch(*file_, name).run(header_);
    if (!address) return std::nullopt;
    Node node(*file_, path_of(name), ObjectHeader(*file_, *address));
    if (!(kind == NodeKind::group ? node.header_.is_group() : node.header_.is_dataset())) {
      throw_corrupt("expected ", name_of(kind), ", got an object of another kind");
    }
    return node;
  });
}

Node Node::need(const std::string& name, NodeKind kind) const {
  std::optional<Node> node = find(name, kind);
  if (!node) throw_corrupt(path_of(name), ": expected ", name_of(kind), ", got none");
  return std::move(*node);
}

}  // namespace atompack::torch_cache
