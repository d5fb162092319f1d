#include "serial/pickle/opcodes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace atompack::pickle {
namespace {

struct NamedOpcode {
  uint8_t opcode;
  std::string_view name;
};

// Python's names of the opcodes that are refused or can be misplaced.
constexpr std::array kNames = {
    NamedOpcode{0x80, "PROTO"},
    NamedOpcode{0x81, "NEWOBJ"},
    NamedOpcode{0x82, "EXT1"},
    NamedOpcode{0x83, "EXT2"},
    NamedOpcode{0x84, "EXT4"},
    NamedOpcode{0x8F, "EMPTY_SET"},
    NamedOpcode{0x90, "ADDITEMS"},
    NamedOpcode{0x91, "FROZENSET"},
    NamedOpcode{0x92, "NEWOBJ_EX"},
    NamedOpcode{0x97, "NEXT_BUFFER"},
    NamedOpcode{0x98, "READONLY_BUFFER"},
    NamedOpcode{'0', "POP"},
    NamedOpcode{'1', "POP_MARK"},
    NamedOpcode{'2', "DUP"},
    NamedOpcode{'F', "FLOAT"},
    NamedOpcode{'I', "INT"},
    NamedOpcode{'L', "LONG"},
    NamedOpcode{'P', "PERSID"},
    NamedOpcode{'Q', "BINPERSID"},
    NamedOpcode{'S', "STRING"},
    NamedOpcode{'T', "BINSTRING"},
    NamedOpcode{'U', "SHORT_BINSTRING"},
    NamedOpcode{'V', "UNICODE"},
    NamedOpcode{'d', "DICT"},
    NamedOpcode{'g', "GET"},
    NamedOpcode{'i', "INST"},
    NamedOpcode{'l', "LIST"},
    NamedOpcode{'o', "OBJ"},
    NamedOpcode{'p', "PUT"},
};

const NamedOpcode* find(uint8_t opcode) {
  const auto found = std::ranges::find(kNames, opcode, &NamedOpcode::opcode);
  return found == kNames.end() ? nullptr : found;
}

}  // namespace

std::string name_of_opcode(uint8_t opcode) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = {'0', 'x', kDigits[opcode >> 4], kDigits[opcode & 15]};
  if (const NamedOpcode* const found = find(opcode)) text.append(" ").append(found->name);
  return text;
}

bool is_opcode_of_python(uint8_t opcode) { return find(opcode) != nullptr; }

}  // namespace atompack::pickle
