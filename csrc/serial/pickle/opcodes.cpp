#include "serial/pickle/opcodes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace atompack::pickle {
namespace {

struct Named {
  uint8_t opcode;
  std::string_view name;
};

// Python's names of the opcodes that are refused or can be misplaced.
constexpr std::array kNames = {
    Named{0x80, "PROTO"},
    Named{0x81, "NEWOBJ"},
    Named{0x82, "EXT1"},
    Named{0x83, "EXT2"},
    Named{0x84, "EXT4"},
    Named{0x8F, "EMPTY_SET"},
    Named{0x90, "ADDITEMS"},
    Named{0x91, "FROZENSET"},
    Named{0x92, "NEWOBJ_EX"},
    Named{0x97, "NEXT_BUFFER"},
    Named{0x98, "READONLY_BUFFER"},
    Named{'0', "POP"},
    Named{'1', "POP_MARK"},
    Named{'2', "DUP"},
    Named{'F', "FLOAT"},
    Named{'I', "INT"},
    Named{'L', "LONG"},
    Named{'P', "PERSID"},
    Named{'Q', "BINPERSID"},
    Named{'S', "STRING"},
    Named{'T', "BINSTRING"},
    Named{'U', "SHORT_BINSTRING"},
    Named{'V', "UNICODE"},
    Named{'d', "DICT"},
    Named{'g', "GET"},
    Named{'i', "INST"},
    Named{'l', "LIST"},
    Named{'o', "OBJ"},
    Named{'p', "PUT"},
};

const Named* find(uint8_t opcode) {
  const auto found = std::ranges::find(kNames, opcode, &Named::opcode);
  return found == kNames.end() ? nullptr : found;
}

}  // namespace

std::string name_of_opcode(uint8_t opcode) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = {'0', 'x', kDigits[opcode >> 4], kDigits[opcode & 15]};
  if (const Named* const named = find(opcode)) text.append(" ").append(named->name);
  return text;
}

bool is_opcode_of_python(uint8_t opcode) { return find(opcode) != nullptr; }

}  // namespace atompack::pickle
