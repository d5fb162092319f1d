// The arrays of an .npz file: name to raw bytes, the .npy header cut off.
#pragma once

#include <zlib.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace atompack::test {

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InternalError(cat("no file ", path));
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string inflate_raw(std::string_view deflated, size_t bytes) {
  std::string out(bytes + 1, '\0');  // zlib wants room even for nothing
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(deflated.data()));
  stream.avail_in = static_cast<uInt>(deflated.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool started = inflateInit2(&stream, -MAX_WBITS) == Z_OK;
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (!started || status != Z_STREAM_END || stream.total_out != bytes) throw InternalError("npz: not deflated so");
  out.resize(bytes);
  return out;
}

inline std::map<std::string, std::string> read_npz(const std::string& path) {
  const std::string file = contents(path);
  const Bytes bytes = as_bytes(file);
  const size_t end = file.rfind("PK\5\6");
  if (end == std::string::npos) throw InternalError(cat("not a zip file: ", path));
  const auto count = load_le<uint16_t>(bytes.data() + end + 10);
  size_t at = load_le<uint32_t>(bytes.data() + end + 16);
  std::map<std::string, std::string> arrays;
  for (uint16_t i = 0; i < count; ++i) {
    const auto u16 = [&](size_t field) { return load_le<uint16_t>(bytes.data() + at + field); };
    const auto u32 = [&](size_t field) { return load_le<uint32_t>(bytes.data() + at + field); };
    const size_t local = u32(42);
    const size_t data =
        local + 30 + load_le<uint16_t>(bytes.data() + local + 26) + load_le<uint16_t>(bytes.data() + local + 28);
    const std::string npy =
        u16(10) == 0 ? file.substr(data, u32(24)) : inflate_raw(std::string_view(file).substr(data, u32(20)), u32(24));
    const size_t header = 10 + load_le<uint16_t>(as_bytes(npy).data() + 8);
    const std::string name = file.substr(at + 46, u16(28));
    arrays[name.substr(0, name.size() - 4)] = npy.substr(header);
    at += 46 + u16(28) + u16(30) + u16(32);
  }
  return arrays;
}

}  // namespace atompack::test
