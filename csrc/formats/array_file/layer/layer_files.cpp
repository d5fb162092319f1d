#include "formats/array_file/layer/layer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "io/open_file.h"

namespace atompack::array_file {
namespace {

constexpr std::string_view kExtension = ".af";

// The number in STEM.<number>.af; nullopt for other names and for number 0.
std::optional<uint32_t> sidecar_number(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(kExtension)) return std::nullopt;
  if (name.size() < stem.size() + 1 + kExtension.size() || name[stem.size()] != '.') return std::nullopt;
  const std::string_view digits = name.substr(stem.size() + 1, name.size() - stem.size() - 1 - kExtension.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) return std::nullopt;
  return number;
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
  // Listing a folder while files are renamed in it may miss one that was there all the time.
  if (includes_base || (!base.is_remote() && io::exists(base))) found.push_back({0, base});
  std::ranges::sort(found, is_older);
  return found;
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

}  // namespace atompack::array_file
