#include "formats/array_file/layer/layer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "io/folder.h"

namespace atompack::array_file {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

std::vector<LayerFile> layer_files(const std::string& path) {
  const fs::path base(path);
  if (base.extension() != kExtension) throw FieldError(cat("array file: expected a name that ends in .af, got ", path));
  const fs::path folder = base.has_parent_path() ? base.parent_path() : fs::path(".");
  std::vector<LayerFile> found{{0, path}};
  for (const std::string& name : io::names_in(folder.string())) {
    if (const auto number = sidecar_number(name, base.stem().string())) {
      found.push_back({*number, (base.parent_path() / name).string()});
    }
  }
  std::ranges::sort(found, {}, [](const LayerFile& layer) { return std::tie(layer.number, layer.path); });
  return found;
}

std::string sidecar_path(const std::string& base_path, uint32_t number) {
  const fs::path base(base_path);
  return (base.parent_path() / cat(base.stem().string(), ".", number, kExtension)).string();
}

}  // namespace atompack::array_file
