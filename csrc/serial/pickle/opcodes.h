// Opcodes of Python's pickles that the reader supports, and the names of all.
#pragma once

#include <cstdint>
#include <string>

namespace atompack::pickle {

enum class Op : uint8_t {
  proto = 0x80,
  frame = 0x95,
  stop = '.',
  mark = '(',
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  bin_int1 = 'K',
  bin_int2 = 'M',
  bin_int = 'J',
  long1 = 0x8A,
  long4 = 0x8B,
  bin_float = 'G',
  short_bin_unicode = 0x8C,
  bin_unicode = 'X',
  bin_unicode8 = 0x8D,
  short_bin_bytes = 'C',
  bin_bytes = 'B',
  bin_bytes8 = 0x8E,
  byte_array8 = 0x96,
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_tuple = ')',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  tuple = 't',
  empty_dict = '}',
  set_item = 's',
  set_items = 'u',
  memoize = 0x94,
  bin_put = 'q',
  long_bin_put = 'r',
  bin_get = 'h',
  long_bin_get = 'j',
  global = 'c',
  stack_global = 0x93,
  reduce = 'R',
  build = 'b',
  new_object = 0x81,
  bin_persid = 'Q',
};

// Returns "0x81 NEWOBJ", or only the number if Python has no such opcode.
std::string name_of_opcode(uint8_t opcode);

bool is_opcode_of_python(uint8_t opcode);

}  // namespace atompack::pickle
