// Pickles in tests: as text in, as text out.
#pragma once

#include <string>
#include <string_view>

#include "message_of.h"
#include "serial/pickle/machine.h"
#include "serial/pickle/show.h"

namespace atompack::test {

// What a protocol-4 pickle of these opcodes holds (see show.h), or what is wrong with it: "corrupt: ...".
inline std::string run(std::string_view opcodes, pickle::Limits limits = {},
                       std::span<const pickle::RecordClass> classes = {}) {
  pickle::Machine machine(classes, limits);
  const std::string block = cat("\x80\x04", opcodes);
  try {
    return show(machine.run(as_bytes(block)));
  } catch (const CorruptFileError& error) {
    return cat("corrupt: ", error.what());
  } catch (const UnsafePickleError& error) {
    return cat("unsafe: ", error.what());
  } catch (const UnsupportedFormatError& error) {
    return cat("unsupported: ", error.what());
  }
}

// SHORT_BINUNICODE.
inline std::string str(std::string_view text) {
  return std::string("\x8c") + static_cast<char>(text.size()) + std::string(text);
}

inline std::string global(std::string_view module, std::string_view name) { return str(module) + str(name) + '\x93'; }

// A number in eight bytes, as it lies in the block.
inline std::string u64(uint64_t number) { return std::string(as_text(std::as_bytes(std::span(&number, 1)))); }

}  // namespace atompack::test
