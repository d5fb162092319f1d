// In all directions, and in none.
#pragma once

#include <array>

namespace atompack::physics {

inline constexpr std::array kAll{true, true, true};
inline constexpr std::array kNone{false, false, false};

}  // namespace atompack::physics
