#include "formats/torch_cache/hdf5/h5_writing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "formats/torch_cache/rows/heap.h"
#include "formats/torch_cache/rows/tables.h"

namespace atompack::torch_cache {

H5Session::H5Session() {
  // Nothing is open between sessions, so nothing needs to be done at exit, where the library would print what it lost
  // because of damaged files.
  [[maybe_unused]] static const herr_t status = H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &report_, &report_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Session::~H5Session() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, report_, report_data_);
}

void fail_h5(const std::string& what) {
  std::string reason;  // the innermost one
  const auto look = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& found = *static_cast<std::string*>(into);
    if (found.empty() && error->desc != nullptr) found = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &reason);
  constexpr std::string_view kErrno = "errno = ";
  if (const size_t at = reason.find(kErrno); at != std::string::npos) {
    const int code = std::atoi(reason.c_str() + at + kErrno.size());
    throw IoError(code, std::strerror(code), {});
  }
  throw IoError(EIO, cat(what, ": libhdf5: ", reason.empty() ? "no reason given" : reason), {});
}

void H5Handle::close(const std::string& what) {
  if (H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) < 0) fail_h5(what);
}

H5Handle own(hid_t id, const std::string& what) {
  if (id < 0) fail_h5(what);
  return H5Handle(id);
}

namespace {

// Few rows per chunk, so that a small file is not mostly zeros.
hsize_t chunk_rows(hsize_t n_rows) { return std::clamp<hsize_t>(n_rows, 16, 1024); }

constexpr size_t kEndOffset = 40;  // in a superblock of version 0

// The oldest forms, as HDF5 1 writes by default. HDF5 2 would write a superblock of version 2, which has a checksum.
H5Handle access_list() {
  H5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), "access list");
  require_h5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "versions");
  return access;
}

hid_t base_type(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return H5T_STD_U8LE;
    case DType::int64:
      return H5T_STD_I64LE;
    case DType::float32:
      return H5T_IEEE_F32LE;
    case DType::float64:
      return H5T_IEEE_F64LE;
    default:
      throw InternalError("no column of a cache has this type");
  }
}

// Data space without an upper limit on rows.
H5Handle space_of(hsize_t n_rows) {
  const hsize_t max_rows = H5S_UNLIMITED;
  return own(H5Screate_simple(1, &n_rows, &max_rows), "data space");
}

H5Handle chunked_properties(hsize_t n_rows, bool compressed) {
  H5Handle creation = own(H5Pcreate(H5P_DATASET_CREATE), "creation list");
  const hsize_t rows = chunk_rows(n_rows);
  require_h5(H5Pset_chunk(creation.get(), 1, &rows), "chunk");
  require_h5(H5Pset_obj_track_times(creation.get(), false), "times");  // the same entries give the same file
  if (compressed) {
    require_h5(H5Pset_shuffle(creation.get()), "shuffle");
    require_h5(H5Pset_deflate(creation.get(), 5), "deflate");
  }
  return creation;
}

H5Handle create_dataset(hid_t parent, const char* name, hid_t type, hsize_t n_rows, bool compressed) {
  const H5Handle space = space_of(n_rows), creation = chunked_properties(n_rows, compressed);
  return own(H5Dcreate2(parent, name, type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), name);
}

// Exactly as long as the string, in UTF-8: the original does not read ASCII.
H5Handle text_type(size_t bytes, H5T_cset_t characters) {
  H5Handle type = own(H5Tcopy(H5T_C_S1), "string type");
  require_h5(H5Tset_size(type.get(), std::max<size_t>(bytes, 1)), "string size");
  require_h5(H5Tset_cset(type.get(), characters), "character set");
  return type;
}

struct Stored {
  H5Handle type;
  const void* bytes;
};

Stored stored(const AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return {text_type(text->size(), H5T_CSET_UTF8), text->data()};
  }
  if (const auto* flag = std::get_if<bool>(&value)) return {own(H5Tcopy(H5T_STD_B8LE), "bit field"), flag};
  if (const auto* number = std::get_if<int64_t>(&value)) return {own(H5Tcopy(H5T_STD_I64LE), "integer"), number};
  return {own(H5Tcopy(H5T_IEEE_F64LE), "float"), &std::get<double>(value)};
}

}  // namespace

std::vector<std::byte> empty_file() {
  const H5Session session;
  const H5Handle access = access_list();
  require_h5(H5Pset_fapl_core(access.get(), 4096, false), "file in memory");
  const H5Handle file = own(H5Fcreate("empty", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "file in memory");
  flush(file.get());
  std::vector<std::byte> image(static_cast<size_t>(require_h5(H5Fget_file_image(file.get(), nullptr, 0), "image")));
  require_h5(H5Fget_file_image(file.get(), image.data(), image.size()), "image");
  return image;
}

void set_end(std::span<std::byte> head, uint64_t end) { store_le(head.subspan(kEndOffset, sizeof(end)).data(), end); }

H5Handle open_for_writing(const std::string& path) {
  const H5Handle access = access_list();
  require_h5(H5Pset_file_locking(access.get(), false, true), "locking");
  return own(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get()), path);
}

void flush(hid_t file) { require_h5(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush"); }

H5Handle create_group(hid_t parent, const char* name) {
  return own(H5Gcreate2(parent, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), name);
}

void write_attribute(hid_t object, const char* name, const AttributeValue& value) {
  const auto* const text = std::get_if<std::string>(&value);
  const bool is_empty = text != nullptr && text->empty();
  const H5Handle space = own(H5Screate(is_empty ? H5S_NULL : H5S_SCALAR), name);
  const Stored held = stored(value);
  const H5Handle attribute =
      own(H5Acreate2(object, name, held.type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), name);
  if (!is_empty) require_h5(H5Awrite(attribute.get(), held.type.get(), held.bytes), name);
}

void write_vlen(hid_t parent, const char* name, DType dtype, Bytes references) {
  const H5Handle type = own(H5Tvlen_create(base_type(dtype)), name);
  const hsize_t n_rows = references.size() / VlenColumn::kReferenceBytes;
  H5Handle dataset = create_dataset(parent, name, type.get(), n_rows, false);
  const hsize_t step = chunk_rows(n_rows);
  std::vector<std::byte> chunk(step * VlenColumn::kReferenceBytes);
  for (hsize_t row = 0; row < n_rows; row += step) {
    const Bytes some = references.subspan(row * VlenColumn::kReferenceBytes);
    std::ranges::fill(chunk, std::byte{0});
    store(chunk.data(), some.first(std::min(some.size(), chunk.size())));
    require_h5(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &row, chunk.size(), chunk.data()), name);
  }
  dataset.close(name);
}

void TableWriter::add_text(const char* name, const std::function<std::string(size_t)>& value) {
  size_t width = 1;
  for (size_t row = 0; row < n_rows_; ++row) width = std::max(width, value(row).size());
  const auto store_value = [value](size_t row, std::byte* to) { store(to, as_bytes(value(row))); };
  columns_.push_back({name, Kind::text, width, store_value});
}

H5Handle TableWriter::type_of(const Column& column) {
  switch (column.kind) {
    case Kind::flag:
      return own(H5Tcopy(H5T_STD_B8LE), column.name);
    case Kind::int32:
      return own(H5Tcopy(H5T_STD_I32LE), column.name);
    case Kind::int64:
      return own(H5Tcopy(H5T_STD_I64LE), column.name);
    case Kind::float64:
      return own(H5Tcopy(H5T_IEEE_F64LE), column.name);
    case Kind::text: {
      H5Handle type = text_type(column.bytes, H5T_CSET_ASCII);
      require_h5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), column.name);
      return type;
    }
  }
  throw InternalError("kind of column out of range");
}

H5Handle TableWriter::compound(size_t row_bytes) const {
  H5Handle type = own(H5Tcreate(H5T_COMPOUND, row_bytes), "compound");
  size_t offset = 0;
  for (const Column& column : columns_) {
    require_h5(H5Tinsert(type.get(), column.name, offset, type_of(column).get()), column.name);
    offset += column.bytes;
  }
  return type;
}

void TableWriter::write(hid_t parent, const char* name) const {
  size_t row_bytes = 0;
  for (const Column& column : columns_) row_bytes += column.bytes;
  const H5Handle type = compound(row_bytes);
  H5Handle dataset = create_dataset(parent, name, type.get(), n_rows_, true);
  const H5Handle whole = space_of(n_rows_);
  const hsize_t step = chunk_rows(n_rows_);
  for (hsize_t first = 0; first < n_rows_; first += step) {
    const hsize_t n = std::min<hsize_t>(step, n_rows_ - first);
    std::vector<std::byte> rows(n * row_bytes);
    std::byte* at = rows.data();
    for (hsize_t row = first; row < first + n; ++row) {
      for (const Column& column : columns_) {
        column.store(row, at);
        at += column.bytes;
      }
    }
    require_h5(H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, &first, nullptr, &n, nullptr), name);
    const H5Handle some = space_of(n);
    require_h5(H5Dwrite(dataset.get(), type.get(), some.get(), whole.get(), H5P_DEFAULT, rows.data()), name);
  }
  dataset.close(name);
}

}  // namespace atompack::torch_cache
