// Symbols of the chemical elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atompack {

constexpr uint8_t kLastElement = 118;

// Case-insensitive; X, an atom of no element, is 0.
std::optional<uint8_t> atomic_number(std::string_view symbol);

// Requires number <= kLastElement.
std::string_view symbol_of(uint8_t number);

}  // namespace atompack
