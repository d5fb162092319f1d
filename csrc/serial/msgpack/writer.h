// MessagePack as the original writes it: every value in its shortest form, real numbers as float64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atompack::serial {

// The same methods as JsonWriter.
class MsgpackWriter {
 public:
  void map(size_t n_keys) { head(n_keys, 0x80, 16, 0xDE); }
  void key(std::string_view key) { text(key); }
  void end_map() {}
  void list(size_t n_items) { head(n_items, 0x90, 16, 0xDC); }
  void item() {}
  void end_list() {}

  void text(std::string_view text);
  // Throws FieldError: it would be taken for a moment.
  [[noreturn]] void text_like_a_moment(std::string_view text);
  void natural(uint64_t value);
  void integer(int64_t value);
  void real(double value);
  void boolean(bool value) { out_ += value ? '\xC3' : '\xC2'; }

  std::string take() { return std::move(out_); }

 private:
  template <typename Stored>
  void big_endian(Stored value);
  // `short_code` holds lengths below `n_short` in itself; `code_of_16` is followed by one of 16 bits, the next code by
  // one of 32. Throws FieldError for longer ones.
  void head(size_t n, uint8_t short_code, size_t n_short, uint8_t code_of_16);

  std::string out_;
};

}  // namespace atompack::serial
