#include "formats/torch_cache/hdf5/object_header.h"

#include <algorithm>

namespace atompack::torch_cache {
namespace {

constexpr std::string_view kHeader = "object header";
constexpr std::string_view kContinued = "header continuation";
// A header of this format has one or two blocks; each block may refer to others, even to itself.
constexpr size_t kMaxBlocks = 64;
constexpr int kShared = 2;
// Those that are read; others may be anywhere.
constexpr MessageType kNeeded[] = {MessageType::dataspace, MessageType::link_info,    MessageType::datatype,
                                   MessageType::link,      MessageType::layout,       MessageType::filters,
                                   MessageType::attribute, MessageType::symbol_table, MessageType::attribute_info};

}  // namespace

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
  throw CorruptFileError(cat("object header: expected a ", name, ", got none"));
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

}  // namespace atompack::torch_cache
