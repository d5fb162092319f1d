// Groups and datasets of an HDF5 file by name: FORMAT.md#groups.
#pragma once

#include <optional>
#include <string>

#include "formats/torch_cache/hdf5/object_header.h"

namespace atompack::torch_cache {

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
    return at_path(path_, action);
  }

  // A child by name; nullopt if there is none. Links to other places are not followed: they could name any file.
  std::optional<Node> find(const std::string& name, NodeKind kind) const;
  // Throws CorruptFileError if there is none.
  Node need(const std::string& name, NodeKind kind) const;

 private:
  template <typename Action>
  static auto at_path(const std::string& path, const Action& action) {
    try {
      return action();
    } catch (DataError& error) {
      error.at_field(path);
      throw;
    }
  }

  Node(const Hdf5File& file, std::string path, ObjectHeader header)
      : file_(&file), path_(std::move(path)), header_(std::move(header)) {}

  const Hdf5File* file_;
  std::string path_;
  ObjectHeader header_;
};

}  // namespace atompack::torch_cache
