// Object headers, which hold the messages that describe a group or dataset: FORMAT.md#object-headers.
#pragma once

#include <vector>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

enum class MessageType : uint16_t {
  dataspace = 0x01,
  link_info = 0x02,
  datatype = 0x03,
  link = 0x06,
  layout = 0x08,
  filters = 0x0B,
  attribute = 0x0C,
  continuation = 0x10,
  symbol_table = 0x11,
  attribute_info = 0x15,
};

struct Message {
  MessageType type;
  Bytes bytes;
  uint64_t at;  // in the file

  MetadataCursor cursor(std::string_view what) const { return {bytes, at, what}; }
};

class ObjectHeader {
 public:
  // Throws CorruptFileError, or UnsupportedFormatError for other versions and for messages in a heap of their own.
  ObjectHeader(const Hdf5File& file, uint64_t address) : ObjectHeader(file, address, true) {}

  const std::vector<Message>& messages() const { return messages_; }
  // The first of its type, or nullptr.
  const Message* find(MessageType type) const;
  // Throws CorruptFileError if there is none.
  const Message& need(MessageType type, std::string_view name) const;

  bool is_group() const {
    return find(MessageType::symbol_table) != nullptr || find(MessageType::link_info) != nullptr;
  }
  bool is_dataset() const { return find(MessageType::layout) != nullptr && find(MessageType::dataspace) != nullptr; }

 private:
  friend Message shared_datatype(const Hdf5File& file, MetadataCursor reference);
  ObjectHeader(const Hdf5File& file, uint64_t address, bool follows_references);

  void start_old(uint64_t address);
  void start_new(uint64_t address);
  void read_block(MetadataCursor block);
  void add(const Message& message, int flags);
  void follow(const Message& continuation);

  const Hdf5File& file_;
  bool follows_references_;
  bool is_new_ = false;
  bool has_order_ = false;
  std::vector<MetadataCursor> blocks_;
  std::vector<Message> messages_;
};

// The datatype of a named type elsewhere in the file, given the reference that stands in its place.
Message shared_datatype(const Hdf5File& file, MetadataCursor reference);

}  // namespace atompack::torch_cache
