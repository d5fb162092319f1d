// Names of the files of a block cache.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/fetch/range_reader.h"

namespace atompack::io::fetch {

// SHA-256 of an object's address and version.
using ObjectKey = std::array<uint64_t, 4>;

// Without the query and the user of the URL, which may be secrets and differ for one object. Returns nullopt for an
// object without a strong ETag: a change of it could not be noticed by the next that opens it.
std::optional<ObjectKey> key_of(std::string_view url, const ObjectVersion& version);

// A run of pages of one object, stored in one file.
struct GroupId {
  ObjectKey object{};
  uint64_t number = 0;
  auto operator<=>(const GroupId&) const = default;
};

std::string file_name(const GroupId& group);
// Returns nullopt for every name that file_name() does not return.
std::optional<GroupId> parse_file_name(std::string_view name);

}  // namespace atompack::io::fetch
