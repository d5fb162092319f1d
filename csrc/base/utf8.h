// UTF-8 (Unicode 15, table 3-7).
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace atompack {

bool is_utf8(Bytes bytes);

// Python strings may also contain lone surrogates (U+D800 to U+DFFF), stored in three bytes each.
bool is_utf8_or_surrogates(Bytes bytes);

// Returns UTF-8, with U+FFFD instead of each maximal invalid sequence.
std::string well_formed(Bytes text);

// `code`: at most U+10FFFF; surrogates take three bytes.
void append_utf8(uint32_t code, std::string& text);

}  // namespace atompack
