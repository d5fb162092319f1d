// Arrays as short texts, so that tests compare kind, shape and values in one line.
#pragma once

#include <string>

#include "base/error.h"
#include "formats/extxyz/array.h"

namespace atompack::test {

// As "integer(2,3) 1 2 3 4 5 6".
inline std::string show(const extxyz::Array& array) {
  std::string text(extxyz::name_of(array.kind));
  const char* separator = "(";
  for (const int64_t dim : array.shape) {
    text += cat(separator, dim);
    separator = ",";
  }
  if (!array.shape.empty()) text += ')';
  for (const uint8_t flag : array.flags) text += flag != 0 ? " T" : " F";
  for (const int64_t integer : array.integers) text += cat(' ', integer);
  for (const double real : array.reals) text += cat(' ', real);
  for (const std::string& word : array.texts) text += cat(" '", word, "'");
  return text;
}

}  // namespace atompack::test
