// Arrays of parsed values, under the namespace of this format.
#pragma once

#include "formats/parsed/array.h"

namespace atompack::extxyz {

using parsed::Array;
using parsed::Kind;
using parsed::name_of;
using parsed::product;
using parsed::wider;

}  // namespace atompack::extxyz
