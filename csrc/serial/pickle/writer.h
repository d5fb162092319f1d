// Writer of pickles that NumPy 1 and 2 read alike (FORMAT.md#writing).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/value.h"
#include "serial/pickle/opcodes.h"

namespace atompack::pickle {

// Writes one pickle, appended to `out`. Containers are opened, filled and ended; in a dict, keys and values alternate.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out);

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void big_integer(Bytes twos_complement);  // little-endian
  void real(double value);
  void text(std::string_view text);
  void key(std::string_view text);  // a repeated key costs two bytes
  void bytes(Bytes bytes);

  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();
  void begin_dict();
  void end_dict();

  // Writes native byte order; keeps C or Fortran order, converts others to C. UnsupportedFormatError for element types
  // that NumPy or torch does not have.
  void array(const Array& array);
  void scalar(const Array& array);
  void tensor(const Array& array);
  // `native`: in native byte order, whatever that of the type.
  void dtype(const TypeTable& table, const ElementType& type, bool native = false);
  // An object array: its values follow, in the given order.
  void begin_objects(std::span<const int64_t> shape, bool fortran);
  void end_objects();

  // Writes the value recursively. Throws UnsupportedFormatError for objects of classes.
  void value(const Value& value);

  // A whole pickle of Python's as one value, which pickle.loads turns into its object. Readers of plain data refuse it.
  void pickled(Bytes pickle);

  // Ends the pickle; nothing may follow.
  void finish();

  // Position to roll back to, dropping what was written since.
  struct Place {
    size_t bytes;
    uint32_t n_remembered;
  };
  Place place() const { return {out_.size(), n_remembered_}; }
  void return_to(const Place& place);

 private:
  // Transparent hash: lookups make no string.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  Writer& op(Op opcode) {
    out_.push_back(static_cast<std::byte>(opcode));
    return *this;
  }
  template <std::integral T>
  Writer& put(T number) {
    return put(std::as_bytes(std::span(&number, 1)));
  }
  Writer& put(Bytes bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Writer& put_size(Op short_form, Op long_form, Op huge_form, uint64_t size);
  void bytes_of(const Array& array);
  // Memo keys start with a letter for the kind of thing: string, global, element type.
  static std::string memo_key(char kind, std::string_view what);
  bool recall(std::string_view what);
  void remember(std::string_view what);
  void global(std::string_view module, std::string_view name);

  void begin_array(std::span<const int64_t> shape, const TypeTable& table, const ElementType& type, bool fortran);
  void end_array();

  void fields(const TypeTable& table, const ElementType& type, bool native);
  void objects(const Value& array);
  void shape(std::span<const int64_t> shape);

  std::vector<std::byte>& out_;
  uint32_t n_remembered_ = 0;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> memo_;
};

}  // namespace atompack::pickle
