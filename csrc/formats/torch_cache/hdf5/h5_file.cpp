#include "formats/torch_cache/hdf5/h5_file.h"

#include <cerrno>

#include "base/error.h"
#include "formats/torch_cache/hdf5/object_header.h"

namespace atompack::torch_cache {
namespace {

std::string_view name_of(NodeKind kind) { return kind == NodeKind::group ? "a group" : "a data set"; }

// Called before the library opens a dataset.
void check_header(const Parent& parent, const std::string& path, uint64_t address) {
  try {
    if (address > parent.file.size() || parent.base > parent.file.size() - address) {
      throw CorruptFileError(cat("object header: expected an address in the file, got ", address));
    }
    check_object_header(parent.file, parent.base, parent.base + address);
  } catch (DataError& error) {
    error.at_field(path);
    throw;
  }
}

H5Handle open_file(const std::string& path) {
  const H5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), "file access");
  require_h5(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "file access");
  // A file system without locks is no reason to refuse the file.
  require_h5(H5Pset_file_locking(access.get(), true, true), "file access");
  H5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (file) return file;
  const H5Failure failure = last_failure();
  if (failure.is_locked) throw IoError(EAGAIN, "another program has the file open for writing", path);
  throw CorruptFileError(cat("expected an HDF5 file, got another kind or a damaged one: libhdf5: ", failure.message));
}

}  // namespace

H5File::H5File(const std::string& path, const io::FileIdentity& identity, Bytes bytes)
    : bytes_(bytes), file_(open_file(path)) {
  check_identity(path, identity);
  const H5Handle creation = own(H5Fget_create_plist(file_.get()), "superblock");
  size_t offset_bytes = 0;
  size_t length_bytes = 0;
  hsize_t base = 0;
  require_h5(H5Pget_sizes(creation.get(), &offset_bytes, &length_bytes), "superblock");
  require_h5(H5Pget_userblock(creation.get(), &base), "superblock");
  if (offset_bytes != 8 || length_bytes != 8) {
    throw UnsupportedFormatError(
        cat("superblock: expected addresses and sizes of 8 bytes, got ", offset_bytes, " and ", length_bytes));
  }
  base_ = base;
}

void H5File::check_identity(const std::string& path, const io::FileIdentity& identity) const {
  void* descriptor = nullptr;
  require_h5(H5Fget_vfd_handle(file_.get(), H5P_DEFAULT, &descriptor), "file");
  const io::FileIdentity opened = io::identify(*static_cast<const int*>(descriptor), path);
  if (!opened.same_file(identity)) throw IoError(ESTALE, "the file was replaced while it was being opened", path);
}

std::optional<H5Handle> find_node(const Parent& parent, const std::string& name, NodeKind kind) {
  const std::string path = parent.path_of(name);
  if (require_h5(H5Lexists(parent.id, name.c_str(), H5P_DEFAULT), path) == 0) return std::nullopt;
  H5L_info_t link;
  require_h5(H5Lget_info(parent.id, name.c_str(), &link, H5P_DEFAULT), path);
  if (link.type != H5L_TYPE_HARD) {
    throw UnsupportedFormatError(cat(path, ": expected a hard link, got one of type ", static_cast<int>(link.type)));
  }
  if (kind == NodeKind::dataset) check_header(parent, path, link.u.address);
  H5Handle node = own(H5Oopen(parent.id, name.c_str(), H5P_DEFAULT), path);
  const H5I_type_t found = H5Iget_type(node.get());
  if (found != (kind == NodeKind::group ? H5I_GROUP : H5I_DATASET)) {
    throw CorruptFileError(cat(path, ": expected ", name_of(kind), ", got an object of another kind"));
  }
  return node;
}

H5Handle need_node(const Parent& parent, const std::string& name, NodeKind kind) {
  std::optional<H5Handle> node = find_node(parent, name, kind);
  if (!node) {
    throw CorruptFileError(cat(parent.path_of(name), ": expected ", name_of(kind), ", got none"));
  }
  return std::move(*node);
}

}  // namespace atompack::torch_cache
