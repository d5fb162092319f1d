// Spelling of types and codecs in the metadata.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"

namespace atompack::atlas_store {

inline constexpr std::string_view kList = "list", kFixedList = "fixed_size_list";

inline constexpr std::array<std::pair<std::string_view, array_file::Type>, 14> kTypes{{
    {"bool", array_file::Type::boolean},
    {"int8", array_file::Type::int8},
    {"int16", array_file::Type::int16},
    {"int32", array_file::Type::int32},
    {"int64", array_file::Type::int64},
    {"u_int8", array_file::Type::uint8},
    {"u_int16", array_file::Type::uint16},
    {"u_int32", array_file::Type::uint32},
    {"u_int64", array_file::Type::uint64},
    {"float32", array_file::Type::float32},
    {"float64", array_file::Type::float64},
    {"string", array_file::Type::string},
    {"binary", array_file::Type::binary},
    {"timestamp_nanoseconds", array_file::Type::timestamp},
}};

inline constexpr std::array<std::pair<std::string_view, codec::Codec>, 3> kCodecs{{
    {"Zstd", codec::Codec::zstd},
    {"Lz4", codec::Codec::lz4},
    {"Uncompressed", codec::Codec::none},
}};

template <typename Kind, size_t kSize>
std::optional<Kind> kind_of(const std::array<std::pair<std::string_view, Kind>, kSize>& table, std::string_view name) {
  for (const auto& [spelling, kind] : table) {
    if (spelling == name) return kind;
  }
  return std::nullopt;
}

template <typename Kind, size_t kSize>
std::string_view spelling_of(const std::array<std::pair<std::string_view, Kind>, kSize>& table, Kind kind) {
  for (const auto& [spelling, other] : table) {
    if (other == kind) return spelling;
  }
  return "?";
}

}  // namespace atompack::atlas_store
