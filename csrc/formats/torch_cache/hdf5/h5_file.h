// HDF5 files: opening them and finding groups, datasets and attributes. Needs an H5Session.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "formats/torch_cache/hdf5/attributes.h"
#include "formats/torch_cache/hdf5/h5_handle.h"
#include "io/file.h"

namespace atompack::torch_cache {

// A group with its name for errors; the root's name is empty.
struct Parent {
  hid_t id;
  std::string path;
  Bytes file;
  uint64_t base;  // of addresses

  std::string path_of(const std::string& child) const { return path.empty() ? child : path + "/" + child; }
  Parent below(const H5Handle& group, const std::string& name) const {
    return {group.get(), path_of(name), file, base};
  }
};

class H5File {
 public:
  // Throws IoError if the file at the path has another identity or is locked by a writer; CorruptFileError if it is not
  // a complete HDF5 file. `bytes` are those of the file.
  H5File(const std::string& path, const io::FileIdentity& identity, Bytes bytes);

  Parent root() const { return {file_.get(), "", bytes_, base_}; }
  // Offset of the HDF5 data in the file; addresses count from there.
  uint64_t base() const { return base_; }

 private:
  void check_identity(const std::string& path, const io::FileIdentity& identity) const;

  Bytes bytes_;
  H5Handle file_;
  uint64_t base_ = 0;
};

enum class NodeKind : uint8_t { group, dataset };

// Finds a child of a group by name; nullopt if there is none. Links to other places are not followed: they could name
// any file.
std::optional<H5Handle> find_node(const Parent& parent, const std::string& name, NodeKind kind);
// Throws CorruptFileError if there is none.
H5Handle need_node(const Parent& parent, const std::string& name, NodeKind kind);

// Reads those attributes that exist. Throws CorruptFileError if one has another type.
Attributes read_attributes(hid_t object, std::span<const AttributeName> names);

}  // namespace atompack::torch_cache
