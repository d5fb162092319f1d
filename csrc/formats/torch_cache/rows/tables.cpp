#include "formats/torch_cache/rows/tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "formats/torch_cache/hdf5/contents.h"
#include "formats/torch_cache/hdf5/h5_writing.h"

namespace atompack::torch_cache {
namespace {

constexpr size_t kFixedBytes = 8 + 4 + 4 + 8 + 1 + 1 + 8 + 8 + 4;

}  // namespace

void append_record(const EntryRecord& record, std::vector<std::byte>& to) {
  const size_t start = to.size();
  to.resize(start + kFixedBytes + record.name.size());
  std::byte* at = to.data() + start;
  at = store_le(at, record.address);
  at = store_le(at, record.structure_bytes);
  at = store_le(at, record.n_atoms);
  at = store_le(at, record.energy);
  at = store_le(at, static_cast<uint8_t>(record.has_forces));
  at = store_le(at, static_cast<uint8_t>(record.has_derivatives));
  at = store_le(at, record.n_edges);
  at = store_le(at, record.n_triplets);
  at = store_le(at, static_cast<uint32_t>(record.name.size()));
  store(at, as_bytes(record.name));
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
