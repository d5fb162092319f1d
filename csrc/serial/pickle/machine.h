// Reader of pickles as data: nothing is imported or called (FORMAT.md).
#pragma once

#include <span>
#include <vector>

#include "model/value.h"
#include "serial/pickle/globals.h"
#include "serial/pickle/interpreter.h"
#include "serial/pickle/kept_value.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

// Keeps its memory from block to block. For one thread at a time.
class Machine {
 public:
  // Objects of `classes` are read as records; any other class is an UnsafePickleError that names it.
  explicit Machine(std::span<const RecordClass> classes = {}, const Limits& limits = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Returns the value of the pickle at the front of `block` and ignores the bytes after it. The tree is within the
  // limits and valid until the next call, at most as long as `block`. Throws UnsafePickleError for anything but data,
  // CorruptFileError for inconsistent pickles, UnsupportedFormatError for protocols other than 2 to 5.
  Value run(Bytes block);

  // The same, for a value that stays valid after the next call.
  KeptValue run_and_keep(Bytes block);

 private:
  std::vector<RecordClass> classes_;
  State state_;
  Interpreter stream_, values_;
};

}  // namespace atompack::pickle
