#include "formats/torch_cache/hdf5/contents.h"

#include "base/error.h"
#include "formats/torch_cache/hdf5/dataset.h"

namespace atompack::torch_cache {
namespace {

// Minimum size of a non-empty row in the heap: an object header, and the bytes padded to eight.
constexpr uint64_t kMinRowBytes = 24;

int64_t to_integer(const std::byte* from, size_t size, bool is_signed) {
  uint64_t value = 0;
  std::memcpy(&value, from, size);
  const auto unused = static_cast<int>(64 - 8 * size);
  return is_signed ? static_cast<int64_t>(value << unused) >> unused : static_cast<int64_t>(value);
}

// Reads tables and columns of one file, with limits on the number of rows.
class SectionReader {
 public:
  explicit SectionReader(const Hdf5File& file)
      : file_(file), root_(Node::root_of(file)), file_bytes_(file.bytes().size()) {}

  Contents read() {
    Contents found;
    found.base = file_.base();
    read_entries(found);
    read_groups(found);
    return found;
  }

 private:
  static Dataset open(const Node& parent, const std::string& name) {
    return Dataset(parent.need(name, NodeKind::dataset));
  }

  static std::vector<std::byte> rows_of(const Dataset& dataset, ByteRange bytes) { return dataset.read({&bytes, 1}); }

  // Each row of a section belongs to a different entry.
  static void check_rows(const Dataset& dataset, const std::string& name, uint64_t max_rows) {
    if (dataset.n_rows() > max_rows) {
      throw_corrupt(name, ": expected at most ", max_rows, " rows, got ", dataset.n_rows());
    }
  }

  static std::vector<int64_t> integers(const Dataset& table, const std::string& name) {
    const TableMember member = table.member(name);
    if (member.kind != TableMember::Kind::signed_integer && member.kind != TableMember::Kind::unsigned_integer) {
      throw_corrupt(name, ": expected a column of integers, got another");
    }
    const std::vector<std::byte> packed = rows_of(table, member.bytes);
    std::vector<int64_t> values(table.n_rows());
    const size_t size = member.bytes.length;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = to_integer(packed.data() + i * size, size, member.kind == TableMember::Kind::signed_integer);
    }
    return values;
  }

  static VlenColumn column(const Node& parent, const std::string& name, const std::string& key, uint64_t n_rows) {
    const Dataset dataset = open(parent, name);
    const DType dtype = dataset.vlen_dtype();
    if (dataset.n_rows() != n_rows) {
      throw CorruptFileError(
          cat(parent.path_of(name), ": expected ", n_rows, " rows as in its index, got ", dataset.n_rows()));
    }
    return VlenColumn(key, dtype, rows_of(dataset, {0, VlenColumn::kReferenceBytes}));
  }

  void read_entries(Contents& found) {
    const Node entries = root_.need("entries", NodeKind::group);
    const Dataset structures = open(entries, "structures");
    check_rows(structures, "entries/structures", file_bytes_ / kMinRowBytes);
    n_entries_ = structures.n_rows();
    if (const DType dtype = structures.vlen_dtype(); dtype != DType::uint8) {
      throw_corrupt("entries/structures: expected rows of uint8, got ", name_of(dtype));
    }
    found.structures = VlenColumn("structures", DType::uint8, rows_of(structures, {0, VlenColumn::kReferenceBytes}));
    read_meta(open(entries, "meta"), found);
  }

  // A row is 5 kB, of which 13 bytes are needed; all are read in one pass over the chunks.
  void read_meta(const Dataset& meta, Contents& found) const {
    if (meta.n_rows() != n_entries_) {
      throw CorruptFileError(
          cat("entries/meta: expected ", n_entries_, " rows as in entries/structures, got ", meta.n_rows()));
    }
    const TableMember n_atoms = meta.member("n_atoms");
    const TableMember energy = meta.member("energy");
    const TableMember has_forces = meta.member("has_forces");
    if (n_atoms.kind != TableMember::Kind::signed_integer || energy.kind != TableMember::Kind::floating ||
        energy.bytes.length != sizeof(double) || has_forces.kind == TableMember::Kind::floating) {
      throw UnsupportedFormatError(
          "entries/meta: expected n_atoms to be integers, energy float64, has_forces bit fields");
    }
    const ByteRange ranges[] = {n_atoms.bytes, energy.bytes, has_forces.bytes};
    const std::vector<std::byte> packed = meta.read(ranges);
    const std::byte* from = packed.data();
    for (uint64_t i = 0; i < n_entries_; ++i, from += total_length(ranges)) {
      found.n_atoms.push_back(to_integer(from, n_atoms.bytes.length, true));
      found.energy.push_back(load_le<double>(from + n_atoms.bytes.length));
      const std::byte* const flag = from + n_atoms.bytes.length + sizeof(double);
      found.has_forces.push_back(to_integer(flag, has_forces.bytes.length, false) != 0);
    }
  }

  void read_groups(Contents& found) {
    found.info.root = read_attributes(root_, root_names());
    if (const auto group = root_.find("descriptor_manifest", NodeKind::group)) {
      found.info.manifest = read_attributes(*group, manifest_names());
    }
    const std::optional<Node> cache = root_.find("torch_cache", NodeKind::group);
    if (cache) found.info.cache = read_attributes(*cache, cache_names());
    found.schema = check_schema(found.info);
    if (found.schema.has_features) read_features(*cache, found);
    if (cache) {
      if (found.schema.derivatives) read_derivatives(*cache, found);
    } else if (root_.find("force_derivatives", NodeKind::group)) {
      found.schema.is_legacy = true;
      read_derivatives(root_, found);
    }
  }

  void read_features(const Node& above, Contents& found) const {
    const Node section = above.need("features", NodeKind::group);
    const Dataset table = open(section, "index");
    check_rows(table, section.path() + "/index", n_entries_);
    FeatureIndex index{integers(table, "cache_row"), integers(table, "entry_idx"), integers(table, "n_atoms"),
                       integers(table, "n_features")};
    VlenColumn values = column(section, "values", "features", table.n_rows());
    if (!is_floating(values.dtype())) {
      throw_corrupt(section.path(), "/values: expected floats, got ", name_of(values.dtype()));
    }
    found.features = FeatureSection{std::move(index), std::move(values)};
  }

  void read_derivatives(const Node& above, Contents& found) const {
    const Node section = above.need("force_derivatives", NodeKind::group);
    found.info.force_derivatives = read_attributes(section, force_derivative_names());
    check_derivatives(*found.info.force_derivatives, found.schema);
    const Dataset table = open(section, "index");
    check_rows(table, section.path() + "/index", n_entries_);
    DerivativeSection read{{integers(table, "cache_row"), integers(table, "entry_idx"), integers(table, "n_atoms"),
                            integers(table, "n_radial_edges"), integers(table, "n_angular_triplets")},
                           {}};
    const Node radial = section.need("radial", NodeKind::group);
    const Node angular = section.need("angular", NodeKind::group);
    for (const ColumnPlace& place : kColumns) {
      const bool is_radial = std::string_view(place.group) == "radial";
      const Node& block = is_radial ? radial : angular;
      read.columns.push_back(column(block, place.name, place.key, table.n_rows()));
      check_column(read.columns.back(), place, block.path());
    }
    found.derivatives = std::move(read);
  }

  static void check_column(const VlenColumn& column, const ColumnPlace& place, const std::string& path) {
    const bool is_index = column.dtype() == DType::int64 || column.dtype() == DType::int32;
    if (is_index != place.is_index || column.dtype() == DType::uint8) {
      throw_corrupt(path, "/", place.name, ": expected ", place.is_index ? "int64 or int32" : "floats", ", got ",
                    name_of(column.dtype()));
    }
  }

  const Hdf5File& file_;
  Node root_;
  uint64_t file_bytes_;
  uint64_t n_entries_ = 0;
};

}  // namespace

Contents read_contents(Bytes bytes) {
  const Hdf5File file(bytes);
  return SectionReader(file).read();
}

}  // namespace atompack::torch_cache
