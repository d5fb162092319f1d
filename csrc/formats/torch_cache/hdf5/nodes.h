// Groups and datasets of an HDF5 file by name: FORMAT.md#groups.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

// Object headers, which hold the messages that describe a group or dataset: FORMAT.md#object-headers.
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
  // Throws CorruptFileError if it is missing.
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

enum class NodeKind : uint8_t { group, dataset };

// A group or dataset, with its path for errors; that of the root is empty.
class Node {
 public:
  static Node root_of(const Hdf5File& file);

  const Hdf5File& file() const { return *file_; }
  const ObjectHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& child) const { return path_.empty() ? child : path_ + "/" + child; }

  // Errors of the action name the path.
  template <typename Action>
  auto at_path(const Action& action) const {
    return at_field(path_, action);
  }

  // A child by name; nullopt if missing. Links to other places are not followed: they could name any file.
  std::optional<Node> find(const std::string& name, NodeKind kind) const;
  // Throws CorruptFileError if it is missing.
  Node need(const std::string& name, NodeKind kind) const;

 private:
  Node(const Hdf5File& file, std::string path, ObjectHeader header)
      : file_(&file), path_(std::move(path)), header_(std::move(header)) {}

  const Hdf5File* file_;
  std::string path_;
  ObjectHeader header_;
};

}  // namespace atompack::torch_cache
