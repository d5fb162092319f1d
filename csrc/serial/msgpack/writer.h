// Writer of MessagePack as the original writes it: every value in its shortest form, real numbers as float64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atompack::serial {

// Has the same methods as JsonWriter.
class MsgpackWriter {
 public:
  void map(size_t n_keys) { head(n_keys, 0x80, 16, 0xDE); }
  void key(std::string_view key) { text(key); }
  void end_map() {}
  void list(size_t n_items) { head(n_items, 0x90, 16, 0xDC); }
  void item() {}
  void end_list() {}

  void text(std::string_view text);
  // Throws FieldError: the string would be read back as a timestamp.
  [[noreturn]] void string_like_timestamp(std::string_view text);
  void natural(uint64_t value);
  void integer(int64_t value);
  void real(double value);
  void boolean(bool value) { out_ += value ? '\xC3' : '\xC2'; }

  std::string take() { return std::move(out_); }

 private:
  template <typename Stored>
  void big_endian(Stored value);
  // `short_code` includes lengths below `n_short`; `code_of_16` is followed by a 16-bit length, the next code by a
  // 32-bit one. Throws FieldError for longer ones.
  void head(size_t n, uint8_t short_code, size_t n_short, uint8_t code_of_16);

  std::string out_;
};

}  // namespace atompack::serial
