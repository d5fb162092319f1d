#include "formats/array_file/layer/layers.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "base/ascii.h"
#include "base/error.h"
#include "formats/array_file/layer/footer_encoder.h"
#include "io/open_file.h"

namespace atompack::array_file {
namespace {

constexpr std::string_view kExtension = ".af";

// The number in STEM.<number>.af; nullopt for other names and for number 0.
std::optional<uint32_t> sidecar_number(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(kExtension)) return std::nullopt;
  if (name.size() < stem.size() + 1 + kExtension.size() || name[stem.size()] != '.') return std::nullopt;
  const std::string_view digits = name.substr(stem.size() + 1, name.size() - stem.size() - 1 - kExtension.size());
  const std::optional<uint32_t> number = parse_number<uint32_t>(digits);
  return number == 0U ? std::nullopt : number;
}

// A path up to its last slash, and the rest.
struct SplitPath {
  explicit SplitPath(const std::string& path)
      : folder(path.substr(0, path.rfind('/') + 1)), name(path.substr(folder.size())) {}
  std::string stem() const { return name.substr(0, name.size() - kExtension.size()); }

  std::string folder, name;
};

std::string folder_to_list(const SplitPath& base) {
  if (base.folder.size() < 2) return base.folder.empty() ? "." : base.folder;
  return base.folder.substr(0, base.folder.size() - 1);
}

// In a store that cannot list folders: layers are looked up by their numbers, until this many in a row do not exist.
constexpr uint32_t kMaxMissing = 4;

std::vector<std::string> look_up_names(const io::Location& base, const SplitPath& path) {
  const io::Location folder = base.at(folder_to_list(path));
  std::vector<std::string> names, candidates{path.name};
  for (uint32_t next = 1, newest = 0; next <= newest + kMaxMissing;) {
    for (; next <= newest + kMaxMissing; ++next) candidates.push_back(cat(path.stem(), '.', next, kExtension));
    for (std::string& name : io::names_among(folder, candidates)) {
      newest = std::max(newest, sidecar_number(name, path.stem()).value_or(0));
      names.push_back(std::move(name));
    }
    candidates.clear();
  }
  return names;
}

std::vector<LayerFile> list_layers(const io::Location& base, bool includes_base) {
  check_base_path(base.path());
  const SplitPath path(base.path());
  const auto listed = io::list_names(base.at(folder_to_list(path)));
  std::vector<LayerFile> found;
  for (const std::string& name : listed ? *listed : look_up_names(base, path)) {
    includes_base = includes_base || name == path.name;
    if (const auto number = sidecar_number(name, path.stem())) found.push_back({*number, base.at(path.folder + name)});
  }
  // Listing a folder while files are renamed in it may miss one that was present all the time.
  if (includes_base || (!base.is_remote() && io::exists(base))) found.push_back({0, base});
  std::ranges::sort(found, is_older);
  return found;
}

// The number of a cell; nullopt if it is outside of the grid.
std::optional<uint64_t> cell_number(const Footer& footer, Run coordinate, const std::vector<uint64_t>& grid) {
  uint64_t number = 0;
  for (size_t i = 0; i < grid.size(); ++i) {
    const uint32_t at = footer.integer(coordinate, i);
    if (at >= grid[i]) return std::nullopt;
    number = number * grid[i] + at;
  }
  return number;
}

void check_rank(std::string_view what, uint64_t got, const Array& array) {
  if (got == array.shape.size()) return;
  throw_corrupt(what, ": expected ", array.shape.size(), " axes, got ", got);
}

std::unique_ptr<io::WritableFile> make_empty_base(io::FileSystem& files, const std::string& path) {
  if (const auto layers = layer_files(path); layers.size() > 1) {
    throw CorruptFileError(cat("base file: expected one for ", layers.back().path(), ", got none")).in_file(path);
  }
  std::unique_ptr<io::NewFile> file = files.create(path);
  file->write_at(0, encode_layer_end({}));
  file->sync();
  file->publish(false);
  return file;
}

}  // namespace

void check_base_path(const std::string& path) {
  if (std::filesystem::path(path).extension() == kExtension) return;
  throw FieldError(cat("array file: expected a name that ends in .af, got ", path));
}

std::vector<LayerFile> layer_files(const io::Location& base) { return list_layers(base, true); }

std::vector<LayerFile> existing_layers(const io::Location& base) { return list_layers(base, false); }

std::string sidecar_path(const std::string& base_path, uint32_t number) {
  const SplitPath base(base_path);
  return cat(base.folder, base.stem(), '.', number, kExtension);
}

Layers::Layers(std::vector<Layer> layers) : layers_(std::make_shared<const std::vector<Layer>>(std::move(layers))) {
  for (uint32_t layer = 0; layer < n_layers(); ++layer) {
    const Footer& footer = this->layer(layer).footer();
    newest_.reserve(std::max<uint64_t>(newest_.size(), footer.n_arrays()));
    for (uint64_t i = 0; i < footer.n_arrays(); ++i) mention(layer, i, footer.array_name(i));
  }
}

Layers::Layers(std::shared_ptr<const std::vector<Layer>> segments, std::string_view array,
               std::span<const std::string_view> names)
    : layers_(std::move(segments)) {
  for (uint32_t segment = 0; segment < n_layers(); ++segment) {
    const Footer& footer = layer(segment).footer();
    for (uint64_t i = 0; i < footer.n_arrays(); ++i) {
      if (footer.array_name(i) == array) mention(segment, i, names[segment]);
    }
  }
}

void Layers::mention(uint32_t layer, uint64_t index, std::string_view name) {
  if (mentions_.size() >= kNone) throw UnsupportedFormatError(cat("arrays: expected less than ", kNone, ", got more"));
  const auto [at, is_new] = newest_.try_emplace(name, static_cast<uint32_t>(mentions_.size()));
  if (is_new) {
    first_seen_.push_back(name);
    mentions_.push_back({layer, kNone, index});
  } else if (Mention& newest = mentions_[at->second]; newest.layer == layer) {
    newest.index = index;  // the last mention in a layer counts
  } else {
    const uint32_t older = at->second;
    at->second = static_cast<uint32_t>(mentions_.size());
    mentions_.push_back({layer, older, index});
  }
}

uint64_t Layers::file_bytes() const {
  uint64_t bytes = 0;
  for (const Layer& layer : *layers_) bytes += layer.file_bytes();
  return bytes;
}

uint32_t Layers::find(std::string_view name) const {
  const auto found = newest_.find(name);
  if (found == newest_.end() || record(mentions_[found->second]).deleted) return kNone;
  return found->second;
}

std::vector<std::string> Layers::names() const {
  std::vector<std::string> names;
  for (const std::string_view name : first_seen_) {
    if (contains(name)) names.emplace_back(name);
  }
  return names;
}

bool Layers::holds_chunks_of(std::string_view name) const {
  const auto found = newest_.find(name);
  uint32_t mention = found == newest_.end() ? kNone : found->second;
  for (; mention != kNone; mention = mentions_[mention].older) {
    const ArrayRecord at = record(mentions_[mention]);
    if (!at.deleted && at.chunks.count > 0) return true;
  }
  return false;
}

bool Layers::hold_chunks_of_other_rank() const {
  return std::ranges::any_of(newest_, [&](const auto& entry) {
    const ArrayRecord newest = record(mentions_[entry.second]);
    uint32_t mention = newest.deleted ? kNone : mentions_[entry.second].older;
    for (; mention != kNone; mention = mentions_[mention].older) {
      const ArrayRecord older = record(mentions_[mention]);
      if (older.chunks.count > 0 && older.shape.count != newest.shape.count) return true;
    }
    return false;
  });
}

bool Layers::contains(std::string_view name) const { return find(name) != kNone; }

std::optional<Layers::SingleRecord> Layers::find_single(std::string_view name, uint32_t guess) const {
  const bool are_single = mentions_.size() == first_seen_.size();  // then both are in the same order
  const bool is_right = are_single && guess < first_seen_.size() && first_seen_[guess] == name;
  const uint32_t newest = is_right ? guess : find(name);
  if (newest == kNone || mentions_[newest].older != kNone) return std::nullopt;
  const SingleRecord single{mentions_[newest].layer, record(mentions_[newest])};
  return single.record.deleted ? std::nullopt : std::optional(single);
}

std::vector<Layers::SingleRecord> Layers::history(std::string_view name) const {
  std::vector<SingleRecord> records;
  const auto found = newest_.find(name);
  for (uint32_t at = found == newest_.end() ? kNone : found->second; at != kNone; at = mentions_[at].older) {
    records.push_back({mentions_[at].layer, record(mentions_[at])});
    if (records.back().record.deleted) {
      records.pop_back();
      break;
    }
  }
  return records;
}

Array Layers::array(std::string_view name) const {
  return in_array(layer(0).path(), name, [&] {
    const uint32_t newest = find(name);
    if (newest == kNone) throw FieldError("no such array");
    Array array;
    array.name = name;
    describe(mentions_[newest], array);
    array.attributes = attributes(newest);
    check_extent(array);
    collect_chunks(newest, array);
    return array;
  });
}

void Layers::describe(const Mention& mention, Array& array) const {
  const Footer& footer = layer(mention.layer).footer();
  const ArrayRecord newest = record(mention);
  array.type = newest.type;
  array.shape = footer.integers(newest.shape);
  array.chunk_shape = footer.integers(newest.chunk_shape);
  array.dimension_names = footer.strings(newest.dimension_names);
  array.fill = newest.fill;
}

// The newest layer that has a key counts. What is written here is complete in every layer, but the original loses keys
// of older layers.
std::vector<Attribute> Layers::attributes(uint32_t mention) const {
  std::vector<Attribute> found;
  std::unordered_set<std::string_view> keys;
  for (; mention != kNone; mention = mentions_[mention].older) {
    const ArrayRecord at = record(mentions_[mention]);
    if (at.deleted) break;
    for (Attribute& attribute : layer(mentions_[mention].layer).footer().attributes(at)) {
      if (keys.insert(attribute.key).second) found.push_back(std::move(attribute));
    }
  }
  return found;
}

void Layers::collect_chunks(uint32_t mention, Array& array) const {
  for (; mention != kNone; mention = mentions_[mention].older) {
    const ArrayRecord found = record(mentions_[mention]);
    if (found.deleted || found.chunks.count == 0) continue;
    if (!same_layout(mentions_[mention], found, array)) {
      array.foreign_layer = mentions_[mention].layer;
      break;
    }
    add_chunks(mentions_[mention], found, array);
  }
  // For each cell the chunk of the newest layer counts, and within a layer the first one.
  std::ranges::sort(array.chunks, {},
                    [](const StoredChunk& chunk) { return std::tuple(chunk.cell, ~chunk.layer, chunk.entry); });
  const auto rest = std::ranges::unique(array.chunks, {}, &StoredChunk::cell);
  array.chunks.erase(rest.begin(), rest.end());
}

void Layers::add_chunks(const Mention& mention, const ArrayRecord& record, Array& array) const {
  const Layer& layer = this->layer(mention.layer);
  in_file(layer.path(), [&] {
    check_rank("chunk shape", array.chunk_shape.size(), array);
    const std::vector<uint64_t> grid = array.grid().cells();
    for (uint64_t i = 0; i < record.chunks.count; ++i) {
      const ChunkRecord chunk = layer.footer().chunk(record.chunks, i);
      check_rank("chunk coordinate", chunk.coordinate.count, array);
      const std::optional<uint64_t> cell = cell_number(layer.footer(), chunk.coordinate, grid);
      if (cell) array.chunks.push_back({*cell, mention.layer, i, chunk});
    }
  });
}

bool Layers::same_layout(const Mention& mention, const ArrayRecord& record, const Array& array) const {
  const Footer& footer = layer(mention.layer).footer();
  return record.type == array.type && footer.integers(record.shape) == array.shape &&
         footer.integers(record.chunk_shape) == array.chunk_shape;
}

std::unique_ptr<io::WritableFile> lock_base(io::FileSystem& files, const std::string& path) {
  check_base_path(path);
  auto base = if_present([&] { return files.lock(path); });
  return base ? std::move(base) : make_empty_base(files, path);
}

}  // namespace atompack::array_file
