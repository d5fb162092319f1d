// Reads pickles without running them: values are data, nothing is imported or called (FORMAT.md).
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
  // Of `classes`, objects come out as records; of others, UnsafePickleError says which.
  explicit Machine(std::span<const RecordClass> classes = {}, const Limits& limits = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The value of the pickle at the front of `block`; bytes behind it are not looked at. It is a tree no deeper and no
  // larger than the limits, and lives until the next call, and no longer than `block`.
  // Throws UnsafePickleError for what is no data, CorruptFileError for what contradicts itself, UnsupportedFormatError
  // for protocols other than 2 to 5.
  Value run(Bytes block);

  // The same, kept beyond the next call.
  KeptValue run_and_keep(Bytes block);

 private:
  std::vector<RecordClass> classes_;
  State state_;
  Interpreter stream_, values_;
};

}  // namespace atompack::pickle
