#include "formats/torch_cache/rows/tables.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "formats/torch_cache/hdf5/attributes.h"
#include "formats/torch_cache/hdf5/contents.h"
#include "formats/torch_cache/rows/heap.h"
#include "threads/process.h"

namespace atompack::torch_cache {

void append_record(const EntryRecord& record, std::vector<std::byte>& to) {
  append_le(to, record.address, record.structure_bytes, record.n_atoms, record.energy,
            static_cast<uint8_t>(record.has_forces), static_cast<uint8_t>(record.has_derivatives), record.n_edges,
            record.n_triplets, static_cast<uint32_t>(record.name.size()));
  append(to, as_bytes(record.name));
}

EntryRecord read_record(ByteCursor& cursor) {
  EntryRecord record;
  record.address = cursor.read_le<uint64_t>("address");
  record.structure_bytes = cursor.read_le<uint32_t>("structure");
  record.n_atoms = cursor.read_le<int32_t>("n_atoms");
  record.energy = cursor.read_le<double>("energy");
  record.has_forces = cursor.read_le<uint8_t>("has_forces") != 0;
  record.has_derivatives = cursor.read_le<uint8_t>("has_derivatives") != 0;
  record.n_edges = cursor.read_le<int64_t>("n_edges");
  record.n_triplets = cursor.read_le<int64_t>("n_triplets");
  record.name = std::string(as_text(cursor.take(cursor.read_le<uint32_t>("name length"), "name")));
  return record;
}

namespace {

// HDF5 identifiers, the lock around the library, and its errors.

// Must exist during calls of HDF5, in one thread at a time. Suppresses the library's error output and restores its
// state.
class H5Session {
 public:
  H5Session() {
    // Nothing is open between sessions, so nothing needs to be done at exit, where the library would print what it lost
    // because of damaged files.
    [[maybe_unused]] static const herr_t status = H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &report_, &report_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~H5Session() {
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, report_, report_data_);
  }

 private:
  threads::ForkLock lock_;
  H5E_auto2_t report_ = nullptr;
  void* report_data_ = nullptr;
};

// Throws IoError without a path: with the number of the system's error if that was the reason, else EIO.
[[noreturn]] void fail_h5(const std::string& what) {
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

// Owner of one identifier of any kind: file, group, dataset, type, space, list or attribute.
class H5Handle {
 public:
  explicit H5Handle(hid_t id) : id_(id) {}
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  ~H5Handle() {
    if (id_ >= 0) H5Idec_ref(id_);
  }

  hid_t get() const { return id_; }

  // The destructor ignores failures; those of datasets and files are lost writes.
  void close(const std::string& what) {
    if (H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) < 0) fail_h5(what);
  }

 private:
  hid_t id_;
};

// Takes ownership of an HDF5 function's result; throws if it is a failure.
H5Handle own(hid_t id, const std::string& what) {
  if (id < 0) fail_h5(what);
  return H5Handle(id);
}

template <typename Status>
Status require_h5(Status status, const std::string& what) {
  if (status < 0) fail_h5(what);
  return status;
}

// Few rows per chunk, so that a small file is not mostly zeros.
hsize_t chunk_rows(hsize_t n_rows) { return std::clamp<hsize_t>(n_rows, 16, 1024); }

constexpr size_t kEndOffset = 40;  // in a superblock of version 0

// The oldest forms, as HDF5 1 writes by default. HDF5 2 would write a superblock of version 2, which has a checksum.
H5Handle access_list() {
  H5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), "access list");
  require_h5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "versions");
  return access;
}

// Stored type of a number or boolean.
template <typename T>
hid_t stored_type() {
  if constexpr (std::is_same_v<T, bool>) return H5T_STD_B8LE;
  if constexpr (std::is_same_v<T, int32_t>) return H5T_STD_I32LE;
  if constexpr (std::is_same_v<T, int64_t>) return H5T_STD_I64LE;
  return H5T_IEEE_F64LE;
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

// Without HDF5's lock: the caller has locked the file.
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
  const auto type_of = [&]<typename T>(const T&) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text_type(text->size(), H5T_CSET_UTF8);
    } else {
      return own(H5Tcopy(stored_type<T>()), name);
    }
  };
  const H5Handle type = std::visit(type_of, value);
  const H5Handle attribute = own(H5Acreate2(object, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), name);
  if (is_empty) return;
  const void* const bytes =
      text != nullptr ? text->data() : std::visit([](const auto& held) -> const void* { return &held; }, value);
  require_h5(H5Awrite(attribute.get(), type.get(), bytes), name);
}

// Writes a dataset of rows of variable length, given their references.
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

// Writes rows of a compound column by column; columns are added in alphabetical order.
class TableWriter {
 public:
  explicit TableWriter(size_t n_rows) : n_rows_(n_rows) {}

  // T: bool, int32_t, int64_t or double.
  template <typename T>
  void add(const char* name, const std::function<T(size_t)>& value) {
    const auto store_value = [value](size_t row, std::byte* to) {
      if constexpr (std::is_same_v<T, bool>) {
        store_le(to, static_cast<uint8_t>(value(row)));
      } else {
        store_le(to, value(row));
      }
    };
    columns_.push_back({name, own(H5Tcopy(stored_type<T>()), name), sizeof(T), store_value});
  }

  // As wide as the longest string.
  void add_text(const char* name, const std::function<std::string(size_t)>& value) {
    size_t width = 1;
    for (size_t row = 0; row < n_rows_; ++row) width = std::max(width, value(row).size());
    H5Handle type = text_type(width, H5T_CSET_ASCII);
    require_h5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), name);
    const auto store_value = [value](size_t row, std::byte* to) { store(to, as_bytes(value(row))); };
    columns_.push_back({name, std::move(type), width, store_value});
  }

  void write(hid_t parent, const char* name) const {
    size_t row_bytes = 0;
    for (const Column& column : columns_) row_bytes += column.bytes;
    const H5Handle type = own(H5Tcreate(H5T_COMPOUND, row_bytes), "compound");
    size_t offset = 0;
    for (const Column& column : columns_) {
      require_h5(H5Tinsert(type.get(), column.name, offset, column.type.get()), column.name);
      offset += column.bytes;
    }
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

 private:
  struct Column {
    const char* name;
    H5Handle type;
    size_t bytes;
    std::function<void(size_t, std::byte*)> store;
  };

  size_t n_rows_;
  std::vector<Column> columns_;
};

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

namespace {

constexpr std::string_view kCacheFormat = "aenet.torch_training.cache.v2";
constexpr std::string_view kPayloadFormat = "aenet.torch_training.local_derivatives.v1";
constexpr std::string_view kManifestFormat = "aenet.torch_training.descriptor_manifest.v1";

// One row of force_derivatives or features, and its entry.
struct Row {
  const EntryRecord* record;
  int64_t entry;
};

// Number of elements of a column's row.
using Length = std::function<int64_t(const EntryRecord&)>;

std::vector<std::byte> references(std::span<const Row> rows, uint32_t object, const Length& length) {
  std::vector<std::byte> bytes(rows.size() * VlenColumn::kReferenceBytes);
  std::byte* at = bytes.data();
  for (const Row& row : rows) {
    const int64_t n = length(*row.record);
    at = store_le(at, static_cast<uint32_t>(n));
    at = store_le(at, n == 0 ? uint64_t{0} : row.record->address);  // empty rows refer to nothing
    at = store_le(at, n == 0 ? uint32_t{0} : object);
  }
  return bytes;
}

void write_features(hid_t cache, const CacheHeader& header, std::span<const Row> rows) {
  const H5Handle group = create_group(cache, "features");
  TableWriter index(rows.size());
  index.add<int64_t>("cache_row", [](size_t i) { return static_cast<int64_t>(i); });
  index.add<int64_t>("entry_idx", [&](size_t i) { return rows[i].entry; });
  index.add<int32_t>("n_atoms", [&](size_t i) { return rows[i].record->n_atoms; });
  index.add<int32_t>("n_features", [&](size_t) { return static_cast<int32_t>(header.n_features); });
  index.write(group.get(), "index");
  const auto length = [&](const EntryRecord& record) { return record.n_atoms * header.n_features; };
  write_vlen(group.get(), "values", header.storage, references(rows, kFeaturesObject, length));
}

void write_derivative_attributes(hid_t group, const CacheHeader& header) {
  write_attribute(group, "schema_version", int64_t{1});
  write_attribute(group, "payload_format", std::string(kPayloadFormat));
  write_attribute(group, "descriptor_compat_json", header.compat_json);
  write_attribute(group, "descriptor_compat_sha256", header.compat_sha256);
  write_attribute(group, "storage_dtype", std::string(name_of(header.storage)));
  write_attribute(group, "n_radial_features", header.n_radial);
  write_attribute(group, "n_angular_features", header.n_angular);
  write_attribute(group, "multi", header.multi);
  write_attribute(group, "contains_features", false);
  write_attribute(group, "contains_positions", false);
}

// Number of elements of a row of each column, in the order of Column.
std::array<Length, kNumberOfColumns> derivative_lengths(const CacheHeader& header) {
  const Length edges = [](const EntryRecord& record) { return record.n_edges; };
  const Length triplets = [](const EntryRecord& record) { return record.n_triplets; };
  const Length none = [](const EntryRecord&) { return int64_t{0}; };
  const Length radial = [n = 3 * header.n_radial](const EntryRecord& record) { return record.n_edges * n; };
  const Length angular = [n = 3 * header.n_angular](const EntryRecord& record) { return record.n_triplets * n; };
  return {edges,   edges,   radial,  header.multi ? edges : none,   triplets, triplets, triplets,
          angular, angular, angular, header.multi ? triplets : none};
}

void write_derivatives(hid_t cache, const CacheHeader& header, std::span<const Row> rows) {
  const H5Handle group = create_group(cache, "force_derivatives");
  write_derivative_attributes(group.get(), header);
  TableWriter index(rows.size());
  index.add<int64_t>("cache_row", [](size_t i) { return static_cast<int64_t>(i); });
  index.add<int64_t>("entry_idx", [&](size_t i) { return rows[i].entry; });
  index.add<int32_t>("n_angular_triplets", [&](size_t i) { return static_cast<int32_t>(rows[i].record->n_triplets); });
  index.add<int32_t>("n_atoms", [&](size_t i) { return rows[i].record->n_atoms; });
  index.add<int32_t>("n_radial_edges", [&](size_t i) { return static_cast<int32_t>(rows[i].record->n_edges); });
  index.write(group.get(), "index");

  const H5Handle radial = create_group(group.get(), "radial"), angular = create_group(group.get(), "angular");
  const std::array<Length, kNumberOfColumns> lengths = derivative_lengths(header);
  for (size_t i = 0; i < kNumberOfColumns; ++i) {
    const ColumnPlace& place = kColumns[i];
    const bool is_radial = static_cast<Column>(i) < Column::angular_center_idx;
    write_vlen((is_radial ? radial : angular).get(), place.name, place.is_index ? DType::int64 : header.storage,
               references(rows, kFirstDerivativeObject + static_cast<uint32_t>(i), lengths[i]));
  }
}

// Widths of the original's columns. They hold only ASCII; other names, and longer ones, are stored in the structures.
constexpr size_t kNameBytes = 1024, kSourceBytes = 2048;

std::string ascii_or_nothing(const std::string& text, size_t max_bytes) {
  const bool fits =
      text.size() <= max_bytes && std::ranges::all_of(text, [](char c) { return static_cast<signed char>(c) > 0; });
  return fits ? text : std::string();
}

void write_entries(hid_t root, const CacheHeader& header, std::span<const Row> rows) {
  const H5Handle group = create_group(root, "entries");
  const auto length = [](const EntryRecord& record) { return static_cast<int64_t>(record.structure_bytes); };
  write_vlen(group.get(), "structures", DType::uint8, references(rows, kStructureObject, length));

  const std::string source_id = ascii_or_nothing(header.source_id, kSourceBytes);
  TableWriter meta(rows.size());
  meta.add_text("display_name", [](size_t) { return std::string(); });
  meta.add<double>("energy", [&](size_t i) { return rows[i].record->energy; });
  meta.add<int64_t>("frame_idx", [&](size_t i) { return rows[i].entry; });
  meta.add<bool>("has_forces", [&](size_t i) { return rows[i].record->has_forces; });
  meta.add<int32_t>("n_atoms", [&](size_t i) { return rows[i].record->n_atoms; });
  meta.add_text("name", [&](size_t i) { return ascii_or_nothing(rows[i].record->name, kNameBytes); });
  meta.add_text("source_id", [&](size_t) { return source_id; });
  meta.add_text("source_kind", [&](size_t) { return header.source_kind; });
  meta.write(group.get(), "meta");
}

void write_manifest(hid_t root, const Manifest& manifest) {
  const H5Handle group = create_group(root, "descriptor_manifest");
  write_attribute(group.get(), "schema_version", int64_t{1});
  write_attribute(group.get(), "manifest_format", std::string(kManifestFormat));
  write_attribute(group.get(), "descriptor_class", manifest.descriptor_class);
  write_attribute(group.get(), "config_json", manifest.config_json);
  write_attribute(group.get(), "config_sha256", manifest.config_sha256);
}

H5Handle create_cache(hid_t root, const CacheHeader& header) {
  H5Handle group = create_group(root, "torch_cache");
  write_attribute(group.get(), "schema_version", int64_t{2});
  write_attribute(group.get(), "cache_format", std::string(kCacheFormat));
  write_attribute(group.get(), "descriptor_compat_json", header.compat_json);
  write_attribute(group.get(), "descriptor_compat_sha256", header.compat_sha256);
  write_attribute(group.get(), "storage_dtype", std::string(name_of(header.storage)));
  write_attribute(group.get(), "contains_features", header.features);
  write_attribute(group.get(), "contains_force_derivatives", header.force_derivatives);
  return group;
}

}  // namespace

void write_tables(const std::string& path, const CacheHeader& header, std::span<const EntryRecord> records) {
  std::vector<Row> all, with_derivatives;
  for (size_t i = 0; i < records.size(); ++i) {
    all.push_back({&records[i], static_cast<int64_t>(i)});
    if (records[i].has_derivatives) with_derivatives.push_back(all.back());
  }
  const H5Session session;
  H5Handle file = open_for_writing(path);
  write_entries(file.get(), header, all);
  if (!header.manifest.config_json.empty()) write_manifest(file.get(), header.manifest);
  H5Handle cache = create_cache(file.get(), header);
  if (header.features) write_features(cache.get(), header, all);
  if (header.force_derivatives) write_derivatives(cache.get(), header, with_derivatives);
  cache.close("torch_cache");
  flush(file.get());
  file.close("file");
}

bool has_tables(Bytes file, const CacheHeader& header, std::span<const EntryRecord> records) {
  const Contents found = read_contents(file);
  const std::array<Length, kNumberOfColumns> lengths = derivative_lengths(header);
  if (found.n_atoms.size() != records.size() || found.features.has_value() != header.features ||
      found.derivatives.has_value() != header.force_derivatives) {
    return false;
  }
  int64_t row = 0;  // of derivatives
  for (size_t i = 0; i < records.size(); ++i) {
    const EntryRecord& record = records[i];
    const auto entry = static_cast<int64_t>(i);
    if (found.n_atoms[i] != record.n_atoms ||
        std::bit_cast<uint64_t>(found.energy[i]) != std::bit_cast<uint64_t>(record.energy) ||
        (found.has_forces[i] != 0) != record.has_forces || found.structures.length(entry) != record.structure_bytes) {
      return false;
    }
    if (header.features &&
        (found.features->index.entry_idx[i] != entry || found.features->index.n_atoms[i] != record.n_atoms ||
         static_cast<int64_t>(found.features->values.length(entry)) != record.n_atoms * header.n_features)) {
      return false;
    }
    if (!header.force_derivatives || !record.has_derivatives) continue;
    const DerivativeSection& derivatives = *found.derivatives;
    if (row == std::ssize(derivatives.index.entry_idx) || derivatives.index.entry_idx[row] != entry ||
        derivatives.index.n_edges[row] != record.n_edges || derivatives.index.n_triplets[row] != record.n_triplets) {
      return false;
    }
    for (size_t k = 0; k < kNumberOfColumns; ++k) {
      if (static_cast<int64_t>(derivatives.columns[k].length(row)) != lengths[k](record)) return false;
    }
    ++row;
  }
  return !header.force_derivatives || row == std::ssize(found.derivatives->index.entry_idx);
}

}  // namespace atompack::torch_cache
