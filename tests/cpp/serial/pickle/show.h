// A value as one line of text; tests/fixtures/make_pickles.py writes the same of Python's.
#pragma once

#include <string>

#include "model/value.h"

namespace atompack::test {

std::string show(const Value& value);

// A list: one line for each item.
std::string show_lines(const Value& value);

}  // namespace atompack::test
