#include "serial/msgpack/writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/excerpt.h"

namespace atompack::serial {
namespace {

char code(int value) { return static_cast<char>(value); }

}  // namespace

template <typename Stored>
void MsgpackWriter::big_endian(Stored value) {
  auto bytes = std::bit_cast<std::array<char, sizeof(Stored)>>(value);
  std::ranges::reverse(bytes);
  out_.append(bytes.data(), bytes.size());
}

void MsgpackWriter::head(size_t n, uint8_t short_code, size_t n_short, uint8_t code_of_16) {
  if (n > std::numeric_limits<uint32_t>::max()) {
    throw FieldError(cat("MessagePack: expected a 32-bit length, got ", n));
  }
  if (n < n_short) {
    out_ += code(short_code | static_cast<int>(n));
  } else if (n <= 0xFFFF) {
    out_ += code(code_of_16);
    big_endian(static_cast<uint16_t>(n));
  } else {
    out_ += code(code_of_16 + 1);
    big_endian(static_cast<uint32_t>(n));
  }
}

void MsgpackWriter::text(std::string_view text) {
  if (text.size() >= 32 && text.size() <= 0xFF) {
    out_ += {code(0xD9), code(static_cast<int>(text.size()))};
  } else {
    head(text.size(), 0xA0, 32, 0xDA);
  }
  out_ += text;
}

void MsgpackWriter::string_like_timestamp(std::string_view text) {
  throw FieldError(cat("string: expected one that does not read as a timestamp, got ", excerpt(text)));
}

void MsgpackWriter::natural(uint64_t value) {
  if (value < 0x80) {
    out_ += code(static_cast<int>(value));
  } else if (value <= 0xFF) {
    out_ += code(0xCC);
    big_endian(static_cast<uint8_t>(value));
  } else if (value <= 0xFFFF) {
    out_ += code(0xCD);
    big_endian(static_cast<uint16_t>(value));
  } else if (value <= 0xFFFFFFFF) {
    out_ += code(0xCE);
    big_endian(static_cast<uint32_t>(value));
  } else {
    out_ += code(0xCF);
    big_endian(value);
  }
}

void MsgpackWriter::integer(int64_t value) {
  if (value >= 0) return natural(static_cast<uint64_t>(value));
  if (value >= -32) {
    out_ += code(static_cast<int>(value));
  } else if (value >= INT8_MIN) {
    out_ += code(0xD0);
    big_endian(static_cast<int8_t>(value));
  } else if (value >= INT16_MIN) {
    out_ += code(0xD1);
    big_endian(static_cast<int16_t>(value));
  } else if (value >= INT32_MIN) {
    out_ += code(0xD2);
    big_endian(static_cast<int32_t>(value));
  } else {
    out_ += code(0xD3);
    big_endian(value);
  }
}

void MsgpackWriter::real(double value) {
  out_ += code(0xCB);
  big_endian(value);
}

}  // namespace atompack::serial
