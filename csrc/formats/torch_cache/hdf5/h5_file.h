// Opening an HDF5 file and finding its groups, data sets and attributes. Needs an H5Session.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "formats/torch_cache/hdf5/attributes.h"
#include "formats/torch_cache/hdf5/h5_handle.h"
#include "io/file.h"

namespace atompack::torch_cache {

// A group, and what errors call it; the root has no name.
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
  // Throws IoError if another file than `identity` stands at the path, or a writer has it locked; CorruptFileError if
  // it is no whole HDF5 file.
  // `bytes` are those of the file.
  H5File(const std::string& path, const io::FileIdentity& identity, Bytes bytes);

  Parent root() const { return {file_.get(), "", bytes_, base_}; }
  // Where the HDF5 file begins; addresses in it count from there.
  uint64_t base() const { return base_; }

 private:
  void check_identity(const std::string& path, const io::FileIdentity& identity) const;

  Bytes bytes_;
  H5Handle file_;
  uint64_t base_ = 0;
};

enum class NodeKind : uint8_t { group, dataset };

// A child of a group by its own name, nothing if there is none. Links that lead elsewhere are not followed: they could
// name any file.
std::optional<H5Handle> find_node(const Parent& parent, const std::string& name, NodeKind kind);
// Throws CorruptFileError if there is none.
H5Handle need_node(const Parent& parent, const std::string& name, NodeKind kind);

// Those of the names that are there. Throws CorruptFileError if one is of another kind.
Attributes read_attributes(hid_t object, std::span<const AttributeName> names);

}  // namespace atompack::torch_cache
