#include "serial/pickle/storage_stream.h"

#include <concepts>

#include "base/error.h"
#include "serial/pickle/globals.h"
#include "serial/pickle/opcodes.h"

namespace atompack::pickle {
namespace {

// torch's magic number, 0x1950A86A20F9469CFC6C, as LONG1.
constexpr unsigned char kMagicPickle[] = {0x8A, 10, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};
constexpr std::string_view kKey = "0";  // torch uses the storage's address, which has no meaning to readers

class Stream {
 public:
  Stream& op(Op opcode) { return put(static_cast<uint8_t>(opcode)); }
  template <std::integral T>
  Stream& put(T number) {
    return put(std::as_bytes(std::span(&number, 1)));
  }
  Stream& put(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Stream& start() { return op(Op::proto).put(uint8_t{2}); }
  Stream& stop() { return op(Op::stop); }
  Stream& text(std::string_view text) {
    return op(Op::bin_unicode).put(static_cast<uint32_t>(text.size())).put(as_bytes(text));
  }
  Stream& integer(uint16_t value) { return op(Op::bin_int2).put(value); }
  Stream& large_integer(int64_t value) { return op(Op::long1).put(uint8_t{sizeof(value)}).put(value); }

  std::vector<std::byte> take() { return std::move(bytes_); }
  std::span<std::byte> grow(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return std::span(bytes_).last(n);
  }

 private:
  std::vector<std::byte> bytes_;
};

void put_system(Stream& stream) {
  stream.start().op(Op::empty_dict).op(Op::mark);
  stream.text("protocol_version").integer(kStreamProtocol);
  stream.text("little_endian").op(Op::new_true);
  stream.text("type_sizes").op(Op::empty_dict).op(Op::mark);
  stream.text("short").integer(2).text("int").integer(4).text("long").integer(4);
  stream.op(Op::set_items).op(Op::set_items).stop();
}

void put_description(Stream& stream, std::string_view class_name, int64_t size) {
  stream.start().op(Op::mark).text("storage");
  stream.op(Op::global).put(as_bytes("torch\n")).put(as_bytes(class_name)).put('\n');
  stream.text(kKey).text("cpu").large_integer(size).op(Op::none);
  stream.op(Op::tuple).op(Op::bin_persid).stop();
}

}  // namespace

std::vector<std::byte> encode_storage(const Array& array) {
  const auto number = storage_class_of(array.type);
  if (!number) {
    throw UnsupportedFormatError(cat("pickle: torch has no storage of ", type_text(array.table, array.type)));
  }
  const auto size = static_cast<int64_t>(array.size());
  Stream stream;
  stream.start().put(std::as_bytes(std::span(kMagicPickle))).stop();
  stream.start().integer(kStreamProtocol).stop();
  put_system(stream);
  put_description(stream, storage_class(*number).name, size);
  stream.start().op(Op::empty_list).text(kKey).op(Op::append).stop();
  stream.put(size);
  copy_out(array, stream.grow(array.bytes()));
  return stream.take();
}

}  // namespace atompack::pickle
