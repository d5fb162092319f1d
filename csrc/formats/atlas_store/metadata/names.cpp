#include "formats/atlas_store/metadata/names.h"

#include <algorithm>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {
namespace {

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool is_safe(char c) {
  constexpr std::string_view kOthers = " !$&'()+,-.:;=@_";
  return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
}

// Characters that are escaped in names of folders.
bool is_escaped(char c) {
  constexpr std::string_view kEscaped = "\"#%*<>?[\\]^`{|}~";
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code >= 0x7F || kEscaped.find(c) != std::string_view::npos;
}

std::string escaped(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string folder;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (is_escaped(c)) {
      folder += {'%', kDigits[code >> 4], kDigits[code & 15]};
    } else {
      folder += c;
    }
  }
  return folder;
}

bool is_folder_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

[[noreturn]] void refuse(std::string_view what, std::string_view expected, std::string_view name) {
  throw FieldError(cat(what, ": expected ", expected, ", got ", excerpt(name)));
}

void check_name(std::string_view what, std::string_view name) {
  if (!is_utf8(as_bytes(name))) refuse(what, "UTF-8", name);
  if (!is_folder_name(name)) refuse(what, "a non-empty name other than '.' and '..', without '/'", name);
  if (name.front() == '_') refuse(what, "a name that does not begin with '_'", name);
}

}  // namespace

void check_dataset_name(std::string_view name) { check_name("dataset name", name); }

bool is_safe_array_name(std::string_view name) { return std::ranges::all_of(name, is_safe); }

void check_array_name(std::string_view name) {
  constexpr std::string_view kWhat = "array name";
  constexpr size_t kMaxBytes = 255;
  check_name(kWhat, name);
  if (!is_safe_array_name(name)) {
    refuse(kWhat,
           "only ASCII letters, digits, spaces and ! $ & ' ( ) + , - . : ; = @ _, since atlas-python loses the values "
           "of arrays with other characters",
           name);
  }
  if (name.front() == '.') refuse(kWhat, "a name that does not begin with '.'", name);
  if (name.size() > kMaxBytes) refuse(kWhat, cat("at most ", kMaxBytes, " bytes"), name);
  if (std::ranges::find(kFileNames, name) != kFileNames.end())
    refuse(kWhat, "a name other than those of metadata files", name);
}

std::string folder_of_array(std::string_view name) {
  if (!is_folder_name(name))
    throw CorruptFileError(cat("array name: expected the name of a folder, got ", excerpt(name)));
  return escaped(name);
}

std::string lost_folder_of_array(std::string_view name) { return escaped(folder_of_array(name)); }

}  // namespace atompack::atlas_store
