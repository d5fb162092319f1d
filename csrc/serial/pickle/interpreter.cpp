#include "serial/pickle/interpreter.h"

#include <algorithm>
#include <bit>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "serial/pickle/calls.h"
#include "serial/pickle/torch_calls.h"

namespace atompack::pickle {
namespace {

constexpr uint8_t kFirstProtocol = 2, kLastProtocol = 5;
// An array takes about 35 opcodes, a number in a list takes one.
constexpr uint64_t kMaxOpcodesPerValue = 4;

bool is_ascii(Bytes bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    if ((load_le<uint64_t>(bytes.data() + i) & 0x8080808080808080) != 0) return false;
  }
  return std::ranges::all_of(bytes.subspan(i), [](std::byte byte) { return byte < std::byte{0x80}; });
}

// Excerpts of both names, so that a long one does not hide the other.
std::string qualified_name(std::string_view module, std::string_view name) {
  std::string text = excerpt(module);
  text.back() = '.';
  return text + excerpt(name).substr(1);
}

}  // namespace

Cell Interpreter::run(ByteCursor& cursor) {
  cursor_ = &cursor;
  stack_.clear();
  marks_.clear();
  memo_.clear();
  uint64_t at = cursor.position();
  try {
    start();
    for (uint64_t left = kMaxOpcodesPerValue * state_.limits.max_values; left > 0; --left) {
      at = cursor.position();
      const auto opcode = static_cast<Op>(cursor.read_le<uint8_t>("pickle: opcode"));
      if (opcode == Op::stop) return stop();
      step(opcode);
    }
    unsafe("expected at most ", kMaxOpcodesPerValue * state_.limits.max_values, " opcodes, got more");
  } catch (DataError& error) {
    error.at_offset(at);
    throw;
  }
}

void Interpreter::start() {
  const auto first = cursor_->read_le<uint8_t>("pickle: opcode");
  if (static_cast<Op>(first) != Op::proto) corrupt("expected opcode 0x80 PROTO, got ", name_of_opcode(first));
  const auto protocol = cursor_->read_le<uint8_t>("pickle: protocol");
  if (protocol < kFirstProtocol || protocol > kLastProtocol) {
    throw UnsupportedFormatError(cat("pickle: expected protocol 2 to 5, got ", int{protocol}));
  }
}

// One line per opcode; the functions describe the effects.
void Interpreter::step(Op opcode) {
  switch (opcode) {
    case Op::frame:
      return void(cursor_->take(8, "pickle: frame"));
    case Op::mark:
      return marks_.push_back(stack_.size());
    case Op::none:
      return push(Cell::make(Kind::none));
    case Op::new_true:
      return push(Cell::of_boolean(true));
    case Op::new_false:
      return push(Cell::of_boolean(false));
    case Op::bin_int1:
      return push(Cell::of_integer(cursor_->read_le<uint8_t>("pickle: int")));
    case Op::bin_int2:
      return push(Cell::of_integer(cursor_->read_le<uint16_t>("pickle: int")));
    case Op::bin_int:
      return push(Cell::of_integer(cursor_->read_le<int32_t>("pickle: int")));
    case Op::long1:
    case Op::long4:
      return push_long(read_size(opcode));
    case Op::bin_float:
      return push_real();
    case Op::short_bin_unicode:
    case Op::bin_unicode:
    case Op::bin_unicode8:
      return push_text(read_size(opcode));
    case Op::short_bin_bytes:
    case Op::bin_bytes:
    case Op::bin_bytes8:
      return push(Cell::view(Kind::bytes, cursor_->take(read_size(opcode), "pickle: bytes")));
    case Op::byte_array8:
      return push(Cell::view(kByteArray, cursor_->take(read_size(opcode), "pickle: bytearray")));
    case Op::empty_list:
      return push(Cell::make(Kind::list, state_.tree.add_sequence(Kind::list, {})));
    case Op::empty_dict:
      return push(Cell::make(Kind::dict, state_.tree.add_sequence(Kind::dict, {})));
    case Op::append:
      return append(1);
    case Op::appends:
      return append(pop_mark());
    case Op::set_item:
      return set_items(2);
    case Op::set_items:
      return set_items(pop_mark());
    case Op::empty_tuple:
      return push_tuple(0);
    case Op::tuple1:
      return push_tuple(1);
    case Op::tuple2:
      return push_tuple(2);
    case Op::tuple3:
      return push_tuple(3);
    case Op::tuple:
      return push_tuple(pop_mark());
    case Op::memoize:
      expect_available(1);
      return memo_.put_next(stack_.back());
    case Op::bin_put:
      return put(cursor_->read_le<uint8_t>("pickle: memo number"));
    case Op::long_bin_put:
      return put(cursor_->read_le<uint32_t>("pickle: memo number"));
    case Op::bin_get:
      return get(cursor_->read_le<uint8_t>("pickle: memo number"));
    case Op::long_bin_get:
      return get(cursor_->read_le<uint32_t>("pickle: memo number"));
    case Op::global: {
      const std::string_view module = read_line();
      return push_global(module, read_line());
    }
    case Op::stack_global:
      return stack_global();
    case Op::reduce:
      return reduce();
    case Op::build:
      return build();
    case Op::new_object:
      return new_object();
    case Op::bin_persid:
      return persistent_load();
    default:
      refuse(opcode);
  }
}

void Interpreter::refuse(Op opcode) const {
  const auto code = static_cast<uint8_t>(opcode);
  if (opcode == Op::proto || !is_opcode_of_python(code)) corrupt("expected an opcode, got ", name_of_opcode(code));
  unsafe("expected an opcode of plain data, got ", name_of_opcode(code));
}

uint64_t Interpreter::read_size(Op opcode) {
  switch (opcode) {
    case Op::long1:
    case Op::short_bin_unicode:
    case Op::short_bin_bytes:
      return cursor_->read_le<uint8_t>("pickle: size");
    case Op::long4: {
      const auto size = cursor_->read_le<int32_t>("pickle: size");
      if (size < 0) corrupt("size of an int: expected at least 0, got ", size);
      return static_cast<uint64_t>(size);
    }
    case Op::bin_unicode:
    case Op::bin_bytes:
      return cursor_->read_le<uint32_t>("pickle: size");
    default:
      return cursor_->read_le<uint64_t>("pickle: size");
  }
}

// Ints of more than 64 bits stay bytes, without redundant sign bytes.
void Interpreter::push_long(uint64_t size) {
  Bytes bytes = cursor_->take(size, "pickle: int");
  const auto sign_of = [](std::byte byte) { return (byte & std::byte{0x80}) != std::byte{0}; };
  const auto repeats = [&](size_t n) {
    return bytes[n - 1] == (sign_of(bytes[n - 2]) ? std::byte{0xFF} : std::byte{0});
  };
  while (bytes.size() > 1 && repeats(bytes.size())) bytes = bytes.first(bytes.size() - 1);
  if (bytes.size() > sizeof(int64_t)) return push(Cell::view(Kind::big_integer, bytes));
  uint64_t value = !bytes.empty() && sign_of(bytes.back()) ? ~uint64_t{0} : 0;
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
  push(Cell::of_integer(static_cast<int64_t>(value)));
}

void Interpreter::push_real() {
  const uint64_t bits = __builtin_bswap64(cursor_->read_le<uint64_t>("pickle: float"));
  push(Cell::of_real(std::bit_cast<double>(bits)));
}

void Interpreter::push_text(uint64_t size) {
  const Bytes bytes = cursor_->take(size, "pickle: str");
  if (!is_ascii(bytes) && !is_utf8_or_surrogates(bytes)) corrupt("str: expected UTF-8, got ", excerpt(as_text(bytes)));
  push(Cell::view(Kind::text, bytes));
}

void Interpreter::push_tuple(size_t size) {
  expect_available(size);
  const uint32_t node = state_.tree.add_sequence(Kind::tuple, top(size));
  drop(size);
  push(Cell::make(Kind::tuple, node));
}

void Interpreter::push_global(std::string_view module, std::string_view name) {
  const auto meaning = stream_ != nullptr ? find_global(module, name, classes_) : find_storage_class(module, name);
  if (!meaning) {
    unsafe("expected a global of plain data, got ", qualified_name(module, name));
  }
  push(cell_of(*meaning));
}

std::string_view Interpreter::read_line() {
  const uint64_t begin = cursor_->position();
  ByteCursor ahead = *cursor_;
  while (ahead.read_le<char>("pickle: line of a global") != '\n') continue;
  const uint64_t size = ahead.position() - begin;
  return as_text(cursor_->take(size, "pickle: line of a global").first(size - 1));
}

void Interpreter::append(size_t n) {
  const Cell list = below(n);
  expect_kind(list, Kind::list, "APPEND");
  state_.tree.append(static_cast<uint32_t>(list.node), top(n));
  drop(n);
}

void Interpreter::set_items(size_t n) {
  const Cell dict = below(n);
  expect_kind(dict, Kind::dict, "SETITEM");
  if (n % 2 != 0) corrupt("SETITEMS: expected pairs of keys and values, got ", n, " values");
  state_.tree.append(static_cast<uint32_t>(dict.node), top(n));
  drop(n);
}

void Interpreter::put(uint64_t number) {
  expect_available(1);
  if (number > state_.block.size()) {
    corrupt("memo number: expected at most ", state_.block.size(), ", got ", number);
  }
  memo_.put(number, stack_.back());
}

void Interpreter::get(uint64_t number) {
  const Cell* const cell = memo_.get(number);
  if (cell == nullptr) corrupt("memo number: expected one that was stored, got ", number);
  push(*cell);
}

void Interpreter::stack_global() {
  const Cell name = pop(), module = pop();
  expect_kind(module, Kind::text, "STACK_GLOBAL");
  expect_kind(name, Kind::text, "STACK_GLOBAL");
  push_global(module.text(), name.text());
}

void Interpreter::reduce() {
  const Cell arguments = pop(), callable = pop();
  push(call(state_, stream_, callable, arguments));
}

void Interpreter::build() {
  const Cell build_state = pop();
  expect_available(1);
  pickle::build(state_, stack_.back(), build_state);
}

void Interpreter::new_object() {
  const Cell arguments = pop(), record_class = pop();
  if (!is_global(record_class, Global::record)) {
    unsafe("expected an allowed class, got 0x81 NEWOBJ of ", describe(record_class));
  }
  push(pickle::new_object(state_, record_class, arguments));
}

void Interpreter::persistent_load() {
  if (stream_ != nullptr) refuse(Op::bin_persid);
  const Cell id = pop();
  push(torch_storage(state_, id));
}

Cell Interpreter::stop() {
  if (!marks_.empty() || stack_.size() != 1) {
    corrupt("expected one value at the end, got ", stack_.size(), " and ", marks_.size(), " marks");
  }
  return stack_.back();
}

Cell Interpreter::pop() {
  expect_available(1);
  const Cell cell = stack_.back();
  stack_.pop_back();
  return cell;
}

Cell Interpreter::below(size_t n) {
  expect_available(n + 1);
  return stack_[stack_.size() - n - 1];
}

size_t Interpreter::pop_mark() {
  if (marks_.empty()) corrupt("expected a mark, got none");
  const size_t n = available();
  marks_.pop_back();
  return n;
}

void Interpreter::expect_available(size_t n) const {
  if (available() < n) [[unlikely]] {
    corrupt("expected ", n, " values on the stack, got ", available());
  }
}

}  // namespace atompack::pickle
