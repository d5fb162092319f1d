#include "array_format/reader.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "array_format/reading.h"

namespace atompack::array_format {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".af";

using Files = std::vector<std::unique_ptr<const io::MappedFile>>;

// Of STEM.<number>.af; none for other names and for number 0.
std::optional<uint32_t> sidecar_number(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(kExtension)) return std::nullopt;
  if (name.size() < stem.size() + 1 + kExtension.size() || name[stem.size()] != '.') return std::nullopt;
  const std::string_view digits = name.substr(stem.size() + 1, name.size() - stem.size() - 1 - kExtension.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) return std::nullopt;
  return number;
}

[[noreturn]] void fail(const std::error_code& error, const fs::path& path) {
  throw IoError(error.value(), error.message(), path.string());
}

Files map_layers(const std::string& path) {
  Files files;
  for (const std::string& layer : layer_paths(path)) {
    io::UniqueFd fd = io::open_for_reading(layer);
    const uint64_t bytes = io::identify(fd.get(), layer).size;
    files.push_back(std::make_unique<const io::MappedFile>(std::move(fd), bytes, layer, io::Access::automatic, false));
  }
  return files;
}

std::vector<Layer> parse_layers(const Files& files) {
  std::vector<Layer> layers;
  for (const auto& file : files) layers.emplace_back(file->bytes(), file->path());
  return layers;
}

}  // namespace

std::vector<std::string> layer_paths(const std::string& path) {
  const fs::path base(path);
  if (base.extension() != kExtension) throw FieldError(cat("array file: expected a name in .af, got ", path));
  const fs::path folder = base.has_parent_path() ? base.parent_path() : fs::path(".");
  std::vector<std::pair<uint32_t, std::string>> found{{0, path}};
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (const auto number = sidecar_number(name, base.stem().string())) {
      found.emplace_back(*number, (base.parent_path() / name).string());
    }
  }
  if (error) fail(error, folder);
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (auto& [number, layer] : found) paths.push_back(std::move(layer));
  return paths;
}

Reader::Reader(const std::string& path) : files_(map_layers(path)), layers_(parse_layers(files_)) {}

void Reader::read(const Array& array, const Box& box, std::span<std::byte> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_numbers(layers_, array, box, out, last);
}

void Reader::read(const Array& array, const Box& box, std::span<std::string> out, DecodedBlock& last) const {
  check_not_shrunk();
  read_texts(layers_, array, box, out, last);
}

void Reader::check_not_shrunk() const {
  for (const auto& file : files_) file->check_not_shrunk();
}

}  // namespace atompack::array_format
