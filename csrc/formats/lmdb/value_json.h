// Values in the JSON of ASE: numbers, strings, lists and arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/parsed/array.h"
#include "serial/json/reader.h"

namespace atompack::lmdb {

// Appends an integer; false for reals and numbers beyond 64 bits, which become reals in JSON.
bool push_integer(const serial::Number& number, std::vector<int64_t>& out);

// Reads any value; false, with the value skipped, if no field can hold it.
bool take_value(serial::JsonReader& in, parsed::Array& out);

}  // namespace atompack::lmdb
