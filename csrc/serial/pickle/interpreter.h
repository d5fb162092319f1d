// Stack machine that reads one pickle opcode by opcode, without recursion.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "model/value.h"
#include "serial/pickle/opcodes.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

// Memo of a pickle: values stored under numbers.

// Python counts the numbers up from 0, and those are stored in a vector; any other number goes into a map, so that a
// large number costs no more than a small one.
class Memo {
 public:
  void clear() {
    row_.clear();
    others_.clear();
  }

  void put_next(const Cell& cell) { put(row_.size() + others_.size(), cell); }

  void put(uint64_t number, const Cell& cell) {
    if (number < row_.size()) {
      row_[number] = cell;
    } else if (number == row_.size()) {
      row_.push_back(cell);
      if (!others_.empty()) [[unlikely]] {
        others_.erase(number);
      }
    } else {
      others_.insert_or_assign(number, cell);
    }
  }

  // Returns nullptr if nothing was stored under the number.
  const Cell* get(uint64_t number) const {
    if (number < row_.size()) return &row_[number];
    const auto found = others_.find(number);
    return found == others_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<Cell> row_;
  std::unordered_map<uint64_t, Cell> others_;
};

class Interpreter {
 public:
  // With `stream`, an interpreter of storage streams, this one reads a pickle of values; without it, a pickle inside a
  // storage stream. The arguments must outlive the interpreter.
  Interpreter(State& state, std::span<const RecordClass> classes, Interpreter* stream)
      : state_(state), classes_(classes), stream_(stream) {}

  // Returns the value at STOP and leaves `cursor` after it. Only what the opcodes need has been checked.
  Cell run(ByteCursor& cursor);

 private:
  void start();
  void step(Op opcode);
  [[noreturn]] void refuse(Op opcode) const;

  uint64_t read_size(Op opcode);
  void push_long(uint64_t size);
  void push_real();
  void push_text(uint64_t size);
  void push_tuple(size_t size);
  void push_global(std::string_view module, std::string_view name);
  std::string_view read_line();

  void append(size_t n);
  void set_items(size_t n);
  void put(uint64_t number);
  void get(uint64_t number);
  void stack_global();
  void reduce();
  void build();
  void new_object();
  void persistent_load();
  Cell stop();

  void push(const Cell& cell) { stack_.push_back(cell); }
  Cell pop();
  // Returns the container below `n` items.
  Cell below(size_t n);
  std::span<const Cell> top(size_t n) { return std::span(stack_).last(n); }
  void drop(size_t n) { stack_.resize(stack_.size() - n); }
  size_t pop_mark();
  // The number of cells on the stack above the last mark.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  void expect_available(size_t n) const;

  State& state_;
  std::span<const RecordClass> classes_;
  Interpreter* stream_;
  ByteCursor* cursor_ = nullptr;
  std::vector<Cell> stack_;
  std::vector<size_t> marks_;
  Memo memo_;
};

}  // namespace atompack::pickle
