#include "formats/torch_cache/hdf5/h5_dataset.h"

#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "base/error.h"

namespace atompack::torch_cache {
namespace {

std::string_view name_of_layout(H5D_layout_t layout) {
  switch (layout) {
    case H5D_COMPACT:
      return "compact";
    case H5D_CONTIGUOUS:
      return "contiguous";
    case H5D_VIRTUAL:
      return "virtual";
    default:
      return "unknown";
  }
}

uint64_t extent_of(hid_t dataset, const std::string& name) {
  const H5Handle space = own(H5Dget_space(dataset), name);
  const int rank = require_h5(H5Sget_simple_extent_ndims(space.get()), name);
  if (rank != 1) throw CorruptFileError(cat(name, ": expected one dimension, got ", rank));
  hsize_t rows = 0;
  require_h5(H5Sget_simple_extent_dims(space.get(), &rows, nullptr), name);
  return rows;
}

bool is_little_endian(hid_t type) { return H5Tget_size(type) == 1 || H5Tget_order(type) == H5T_ORDER_LE; }

// Other integer layouts exist and are refused instead of being misread.
bool is_plain_integer(hid_t type) {
  const size_t size = H5Tget_size(type);
  return H5Tget_class(type) == H5T_INTEGER && is_little_endian(type) &&
         (size == 1 || size == 2 || size == 4 || size == 8) && H5Tget_offset(type) == 0 &&
         H5Tget_precision(type) == 8 * size;
}

bool is_ieee_float(hid_t type) { return H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F32LE) > 0; }

TableMember::Kind kind_of(hid_t type, const std::string& what) {
  const H5T_class_t found = H5Tget_class(type);
  if (found == H5T_STRING && H5Tis_variable_str(type) == 0) return TableMember::Kind::text;
  if (found == H5T_BITFIELD && H5Tget_size(type) == 1) return TableMember::Kind::unsigned_integer;
  if (is_ieee_float(type)) return TableMember::Kind::floating;
  if (is_plain_integer(type)) {
    return H5Tget_sign(type) == H5T_SGN_NONE ? TableMember::Kind::unsigned_integer : TableMember::Kind::signed_integer;
  }
  throw UnsupportedFormatError(
      cat(what, ": expected little-endian integers, floats, bit fields of 8 bits or fixed text, got type class ",
          static_cast<int>(found)));
}

}  // namespace

H5Dataset::H5Dataset(H5Handle dataset, std::string name)
    : dataset_(std::move(dataset)), name_(std::move(name)), n_rows_(extent_of(dataset_.get(), name_)) {
  type_ = own(H5Dget_type(dataset_.get()), name_);
  layout_.element_bytes = H5Tget_size(type_.get());
  const H5Handle creation = own(H5Dget_create_plist(dataset_.get()), name_);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout != H5D_CHUNKED) {
    throw UnsupportedFormatError(cat(name_, ": expected storage in chunks, got ", name_of_layout(layout)));
  }
  hsize_t rows = 0;
  require_h5(H5Pget_chunk(creation.get(), 1, &rows), name_);
  layout_.n_rows = rows;
  if (layout_.element_bytes == 0 || rows == 0)
    throw CorruptFileError(cat(name_, ": expected chunks of at least one byte, got none"));
  read_filters(creation.get());
}

void H5Dataset::read_filters(hid_t creation) {
  const int n = require_h5(H5Pget_nfilters(creation), name_);
  for (int i = 0; i < n; ++i) read_filter(creation, static_cast<unsigned>(i));
  if (layout_.shuffle && layout_.deflate && *layout_.shuffle > *layout_.deflate) {
    throw UnsupportedFormatError(cat(name_, ": expected the filter shuffle before deflate, got it after"));
  }
}

void H5Dataset::read_filter(hid_t creation, unsigned number) {
  std::array<unsigned, 16> parameters{};
  size_t count = parameters.size();
  std::array<char, 64> label{};
  unsigned flags = 0;
  unsigned config = 0;
  const H5Z_filter_t id = require_h5(
      H5Pget_filter2(creation, number, &flags, &count, parameters.data(), label.size() - 1, label.data(), &config),
      name_);
  if (id == H5Z_FILTER_DEFLATE && !layout_.deflate) {
    layout_.deflate = number;
  } else if (id == H5Z_FILTER_SHUFFLE && !layout_.shuffle) {
    layout_.shuffle = number;
    check_shuffle(parameters, count);
  } else {
    throw UnsupportedFormatError(cat(name_, ": expected no filters but shuffle and deflate, got ",
                                     label[0] == '\0' ? "one without a name" : label.data(), " (filter ", id, ")"));
  }
}

// For rows of variable length the library skips the filter in every chunk; it has no size then.
void H5Dataset::check_shuffle(std::span<const unsigned> parameters, size_t count) {
  if (count == 0 && H5Tget_class(type_.get()) == H5T_VLEN) return;
  if (count == 0 || parameters[0] != layout_.element_bytes) {
    throw CorruptFileError(cat(name_, ": filter shuffle: expected elements of ", layout_.element_bytes, " bytes, got ",
                               count == 0 ? 0 : parameters[0]));
  }
}

TableMember H5Dataset::member(const std::string& name) const {
  const std::string what = name_ + "." + name;
  if (H5Tget_class(type_.get()) != H5T_COMPOUND) throw CorruptFileError(cat(name_, ": expected a table"));
  const int number = H5Tget_member_index(type_.get(), name.c_str());
  if (number < 0) throw CorruptFileError(cat(what, ": expected a column, got none"));
  const auto place = static_cast<unsigned>(number);
  const H5Handle type = own(H5Tget_member_type(type_.get(), place), what);
  const ByteRange bytes{H5Tget_member_offset(type_.get(), place), H5Tget_size(type.get())};
  if (bytes.offset > layout_.element_bytes || bytes.length > layout_.element_bytes - bytes.offset) {
    throw CorruptFileError(cat(what, ": expected a column inside rows of ", layout_.element_bytes, " bytes, got ",
                               bytes.length, " at ", bytes.offset));
  }
  return {kind_of(type.get(), what), bytes};
}

DType H5Dataset::vlen_dtype() const {
  if (H5Tget_class(type_.get()) != H5T_VLEN) throw CorruptFileError(cat(name_, ": expected rows of variable length"));
  if (layout_.element_bytes != 16) {
    throw CorruptFileError(cat(name_, ": expected references of 16 bytes, got ", layout_.element_bytes));
  }
  const H5Handle base = own(H5Tget_super(type_.get()), name_);
  const std::pair<hid_t, DType> known[] = {{H5T_STD_U8LE, DType::uint8},
                                           {H5T_STD_I32LE, DType::int32},
                                           {H5T_STD_I64LE, DType::int64},
                                           {H5T_IEEE_F32LE, DType::float32},
                                           {H5T_IEEE_F64LE, DType::float64}};
  for (const auto& [type, dtype] : known) {
    if (H5Tequal(base.get(), type) > 0) return dtype;
  }
  throw UnsupportedFormatError(cat(name_,
                                   ": expected rows of little-endian uint8, int32, int64, float32 or float64, "
                                   "got another type of ",
                                   H5Tget_size(base.get()), " bytes"));
}

void H5Dataset::read_chunk(uint64_t first_row, uint64_t file_bytes, StoredChunk& chunk,
                           std::vector<std::byte>& kept) const {
  const hsize_t offset = first_row;
  hsize_t stored = 0;
  require_h5(H5Dget_chunk_storage_size(dataset_.get(), &offset, &stored), name_);
  if (stored == 0) throw CorruptFileError(cat(name_, ": rows from ", first_row, " on were never written"));
  if (stored > file_bytes) {
    throw CorruptFileError(cat(name_, ": chunk: expected at most ", file_bytes, " bytes, got ", stored));
  }
  kept.resize(stored);
  require_h5(H5Dread_chunk(dataset_.get(), H5P_DEFAULT, &offset, &chunk.filter_mask, kept.data()), name_);
  chunk.bytes = kept;
}

// A header may claim any number of rows: memory is allocated only for those that the stored chunks can hold.
void H5Dataset::check_claim(uint64_t n_rows, uint64_t file_bytes) const {
  constexpr uint64_t kSmall = uint64_t{16} << 20, kDeflateRatio = 1032;
  const uint64_t bytes = checked_mul(n_rows, layout_.element_bytes, name_);
  if (bytes <= kSmall) return;
  const uint64_t stored = std::min<uint64_t>(H5Dget_storage_size(dataset_.get()), file_bytes);
  if (bytes / (layout_.deflate ? kDeflateRatio : 1) > stored) {
    throw CorruptFileError(cat(name_, ": expected rows that ", stored, " stored bytes can hold, got ", n_rows));
  }
}

std::vector<std::byte> H5Dataset::read(std::span<const ByteRange> ranges, RowRange rows, uint64_t file_bytes) const {
  if (rows.first > n_rows_ || rows.count > n_rows_ - rows.first) throw InternalError("rows that the data set lacks");
  check_claim(rows.count, file_bytes);
  const size_t stride = total_length(ranges);
  std::vector<std::byte> out(checked_mul(rows.count, stride, name_));
  std::vector<std::byte> stored, decoded;
  std::span<std::byte> left = out;
  const uint64_t end = rows.first + rows.count;
  for (uint64_t row = rows.first; row < end;) {
    const uint64_t inside = row % layout_.n_rows;
    const uint64_t count = std::min(end - row, layout_.n_rows - inside);
    StoredChunk chunk;
    read_chunk(row - inside, file_bytes, chunk, stored);
    try {
      unpack_chunk(layout_, chunk, {inside, count}, ranges, left.first(count * stride), decoded);
    } catch (DataError& error) {
      error.shift_offset(0, cat(" of the chunk of ", name_, " from row ", row - inside));
      throw;
    }
    left = left.subspan(count * stride);
    row += count;
  }
  return out;
}

}  // namespace atompack::torch_cache
