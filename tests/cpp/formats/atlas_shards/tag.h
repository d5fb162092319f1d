// The tag of a value, as tests/fixtures/README.md has it: JSON without blanks.
#pragma once

#include <string>

#include "model/value.h"

namespace atompack::test {

std::string tag_of(const Value& value);

}  // namespace atompack::test
