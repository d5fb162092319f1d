// Validation of UTF-8 (Unicode 15, table 3-7).
#pragma once

#include "base/bytes.h"

namespace atompack {

bool is_utf8(Bytes bytes);

// Python strings may also contain lone surrogates (U+D800 to U+DFFF), stored in three bytes each.
bool is_utf8_or_surrogates(Bytes bytes);

}  // namespace atompack
