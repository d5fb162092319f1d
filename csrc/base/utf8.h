// Whether bytes are well-formed UTF-8 (Unicode 15, table 3-7).
#pragma once

#include "base/bytes.h"

namespace atompack {

bool is_utf8(Bytes bytes);

}  // namespace atompack
