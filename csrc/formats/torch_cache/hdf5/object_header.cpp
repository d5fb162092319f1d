#include "formats/torch_cache/hdf5/object_header.h"

#include <vector>

namespace atompack::torch_cache {
namespace {

constexpr uint32_t kNewHeader = 0x5244484f;     // "OHDR"
constexpr uint32_t kNewContinued = 0x4b48434f;  // "OCHK"
constexpr uint16_t kLayout = 8;
constexpr uint16_t kContinuation = 16;
constexpr uint64_t kChecksum = 4;
// A header of this format has one or two blocks; each block may refer to others, even to itself.
constexpr size_t kMaxBlocks = 64;

struct Block {
  uint64_t at, length;
};

class HeaderWalk {
 public:
  HeaderWalk(Bytes file, uint64_t base) : file_(file), base_(base) {}

  void run(uint64_t at) {
    const Bytes head = part(at, 16);
    is_new_ = load_le<uint32_t>(head.data()) == kNewHeader;
    if (is_new_) {
      start_new(at);
    } else if (head[0] == std::byte{1}) {
      blocks_.push_back({at + 16, load_le<uint32_t>(head.data() + 8)});
    } else {
      throw UnsupportedFormatError(cat("object header: expected version 1 or 2, got ", static_cast<int>(head[0])), at);
    }
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (i == kMaxBlocks) throw CorruptFileError(cat("object header: more than ", kMaxBlocks, " blocks"), at);
      read_block(blocks_[i]);
    }
  }

 private:
  Bytes part(uint64_t at, uint64_t length) const {
    if (at > file_.size() || length > file_.size() - at) {
      throw CorruptFileError(cat("object header: expected ", length, " bytes inside the file, got a range outside"),
                             at);
    }
    return file_.subspan(at, length);
  }

  // Version 2: times, limits and the width of its size depend on flags.
  void start_new(uint64_t at) {
    const Bytes head = part(at, 6);
    const auto flags = static_cast<unsigned>(head[5]);
    has_order_ = (flags & 4) != 0;
    const uint64_t size_at = at + 6 + ((flags & 32) != 0 ? 16 : 0) + ((flags & 16) != 0 ? 4 : 0);
    const size_t width = size_t{1} << (flags & 3);
    uint64_t length = 0;
    std::memcpy(&length, part(size_at, width).data(), width);
    blocks_.push_back({size_at + width, length});
  }

  void read_block(Block block) {
    ByteCursor cursor(part(block.at, block.length));
    const uint64_t head = !is_new_ ? 8 : has_order_ ? 6 : 4;
    while (cursor.remaining() >= head) {
      const uint64_t at = block.at + cursor.position();
      const Bytes prefix = cursor.take(head, "object header");
      const auto type = is_new_ ? static_cast<uint16_t>(prefix[0]) : load_le<uint16_t>(prefix.data());
      const auto size = load_le<uint16_t>(prefix.data() + (is_new_ ? 1 : 2));
      if (size > cursor.remaining()) {
        throw CorruptFileError(cat("header message: expected at most ", cursor.remaining(), " bytes, got ", size), at);
      }
      const Bytes message = cursor.take(size, "object header");
      if (type == kContinuation) follow(message, at);
      if (type == kLayout) check_layout(message, at);
    }
  }

  void follow(Bytes message, uint64_t at) {
    ByteCursor cursor(message);
    const auto address = cursor.read_le<uint64_t>("header continuation");
    const auto length = cursor.read_le<uint64_t>("header continuation");
    if (address > file_.size() || base_ > file_.size() - address) {
      throw CorruptFileError(cat("header continuation: expected an address in the file, got ", address), at);
    }
    const Bytes whole = part(base_ + address, length);
    if (!is_new_) return blocks_.push_back({base_ + address, length});
    if (length < 4 + kChecksum || load_le<uint32_t>(whole.data()) != kNewContinued) {
      throw CorruptFileError("header continuation: expected the signature OCHK, got another", base_ + address);
    }
    blocks_.push_back({base_ + address + 4, length - 4 - kChecksum});
  }

  static void check_layout(Bytes message, uint64_t at) {
    ByteCursor cursor(message);
    const auto version = cursor.read_le<uint8_t>("layout");
    const auto kind = cursor.read_le<uint8_t>("layout");
    if (version != 3 && version != 4) {
      throw UnsupportedFormatError(cat("layout: expected version 3 or 4, got ", int{version}), at);
    }
    constexpr uint8_t kChunked = 2;
    if (kind != kChunked) return;
    if (version == 4) cursor.take(1, "layout");
    const auto rank = cursor.read_le<uint8_t>("layout");
    // The second dimension is the size of an element.
    if (rank != 2) throw CorruptFileError(cat("layout: expected chunks of one dimension, got ", rank - 1), at);
    uint64_t width = 4;
    if (version == 3) {
      cursor.take(8, "layout");
    } else {
      width = cursor.read_le<uint8_t>("layout");
      if (width < 1 || width > 8) throw CorruptFileError(cat("layout: expected a width up to 8, got ", width), at);
    }
    for (int i = 0; i < rank; ++i) {
      uint64_t dimension = 0;
      std::memcpy(&dimension, cursor.take(width, "layout").data(), width);
      if (dimension == 0) throw CorruptFileError("layout: expected chunks of at least one byte, got none", at);
    }
  }

  Bytes file_;
  uint64_t base_;
  bool is_new_ = false;
  bool has_order_ = false;
  std::vector<Block> blocks_;
};

}  // namespace

void check_object_header(Bytes file, uint64_t base, uint64_t at) { HeaderWalk(file, base).run(at); }

}  // namespace atompack::torch_cache
