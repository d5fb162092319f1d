// Opcodes of Python's pickles that the reader supports, and the names of all.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "model/value.h"

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

// Pickles that are written opcode by opcode; Self adds what it needs to these.
template <typename Self>
class OpcodeStream {
 public:
  Self& op(Op opcode) { return put(static_cast<uint8_t>(opcode)); }
  template <std::integral T>
  Self& put(T number) {
    return put(std::as_bytes(std::span(&number, 1)));
  }
  Self& put(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return static_cast<Self&>(*this);
  }
  Self& long_integer(int64_t value) { return op(Op::long1).put(uint8_t{sizeof(value)}).put(value); }

  Bytes bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 protected:
  std::vector<std::byte> bytes_;
};

// Returns "0x81 NEWOBJ", or only the number if Python has no such opcode.
std::string name_of_opcode(uint8_t opcode);

bool is_opcode_of_python(uint8_t opcode);

// The globals that a pickle may name and their meaning here. Nothing is imported and no Python function is called.
enum class Global : uint8_t {
  reconstruct,      // numpy: an array to be filled by BUILD
  ndarray,          // numpy: the class
  dtype,            // numpy
  from_buffer,      // numpy: an array over bytes
  scalar,           // numpy
  encode,           // string to bytes, protocol 2
  bytes,            // empty bytes, protocol 2
  rebuild_tensor,   // torch
  load_from_bytes,  // torch: a storage
  ordered_dict,     // the hooks of a tensor
  storage,          // torch: the class of a storage, inside its stream
  record,           // a class that the caller allows
};

// A class whose objects are described by a dict of attributes; they are read as records.
struct RecordClass {
  std::string_view module, name;
  std::span<const std::string_view> ignored = {};  // attributes that are omitted: classes, references to the owner
};

struct Meaning {
  Global global;
  uint32_t number = 0;  // of the record class or of the storage class
};

// Element type of a torch storage class.
struct StorageClass {
  std::string_view name;
  ElementType element;
};

// Returns nullopt if the pair of names is not allowed; both are compared together.
std::optional<Meaning> find_global(std::string_view module, std::string_view name,
                                   std::span<const RecordClass> classes);
// The same for globals inside a storage stream.
std::optional<Meaning> find_storage_class(std::string_view module, std::string_view name);

const StorageClass& storage_class(uint32_t number);
// Returns nullopt for element types without a storage class.
std::optional<uint32_t> storage_class_of(const ElementType& element);

}  // namespace atompack::pickle
