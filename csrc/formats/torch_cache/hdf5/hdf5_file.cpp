#include "formats/torch_cache/hdf5/hdf5_file.h"

#include <array>

namespace atompack::torch_cache {
namespace {

constexpr size_t kBlock = 12;

struct State {
  uint32_t a, b, c;

  void add(const std::byte* block) {
    a += load_le<uint32_t>(block);
    b += load_le<uint32_t>(block + 4);
    c += load_le<uint32_t>(block + 8);
  }

  // Between blocks: six rounds of subtract, rotate, add.
  void mix() {
    a = (a - c) ^ std::rotl(c, 4);
    c += b;
    b = (b - a) ^ std::rotl(a, 6);
    a += c;
    c = (c - b) ^ std::rotl(b, 8);
    b += a;
    a = (a - c) ^ std::rotl(c, 16);
    c += b;
    b = (b - a) ^ std::rotl(a, 19);
    a += c;
    c = (c - b) ^ std::rotl(b, 4);
    b += a;
  }

  // After the last block.
  void finish() {
    c = (c ^ b) - std::rotl(b, 14);
    a = (a ^ c) - std::rotl(c, 11);
    b = (b ^ a) - std::rotl(a, 25);
    c = (c ^ b) - std::rotl(b, 16);
    a = (a ^ c) - std::rotl(c, 4);
    b = (b ^ a) - std::rotl(a, 14);
    c = (c ^ b) - std::rotl(b, 24);
  }
};

constexpr std::string_view kFileSignature("\x89HDF\r\n\x1a\n", 8);
constexpr std::string_view kSuperblock = "superblock";

// At 0, 512, and further powers of two: bytes of the user may come before.
uint64_t find_superblock(Bytes bytes) {
  for (uint64_t at = 0; at + kFileSignature.size() <= bytes.size(); at = at == 0 ? 512 : 2 * at) {
    if (as_text(bytes.subspan(at, kFileSignature.size())) == kFileSignature) return at;
  }
  throw CorruptFileError("expected an HDF5 file, got another kind or a damaged one");
}

void check_widths(MetadataCursor& cursor) {
  const int addresses = cursor.read<uint8_t>();
  const int lengths = cursor.read<uint8_t>();
  if (addresses != 8 || lengths != 8) {
    throw UnsupportedFormatError(
        cat("superblock: expected addresses and sizes of 8 bytes, got ", addresses, " and ", lengths));
  }
}

}  // namespace

uint32_t lookup3(Bytes bytes) {
  const uint32_t start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  State state{start, start, start};
  if (bytes.empty()) return state.c;
  while (bytes.size() > kBlock) {
    state.add(bytes.data());
    state.mix();
    bytes = bytes.subspan(kBlock);
  }
  std::array<std::byte, kBlock> last{};  // what is missing counts as zeros
  store(last.data(), bytes);
  state.add(last.data());
  state.finish();
  return state.c;
}

Hdf5File::Hdf5File(Bytes bytes) : bytes_(bytes), base_(find_superblock(bytes)) { read_superblock(); }

void Hdf5File::read_superblock() {
  MetadataCursor cursor(bytes_.subspan(base_), base_, kSuperblock);
  cursor.take(kFileSignature.size());
  const int version = cursor.read<uint8_t>();
  if (version > 3) {
    throw UnsupportedFormatError(cat("superblock: expected a version up to 3, got ", version), cursor.offset() - 1);
  }
  if (version < 2) {
    cursor.take(4);
    check_widths(cursor);
    cursor.take(version == 0 ? 9 : 13);
    const auto stored_base = cursor.read<uint64_t>();
    cursor.take(8);
    const auto end = cursor.read<uint64_t>();
    cursor.take(8 + 8);  // up to the address in the entry of the root group
    root_ = cursor.read<uint64_t>();
    return check_end(stored_base, end);
  }
  check_widths(cursor);
  const auto flags = cursor.read<uint8_t>();
  const auto stored_base = cursor.read<uint64_t>();
  cursor.take(8);
  const auto end = cursor.read<uint64_t>();
  root_ = cursor.read<uint64_t>();
  const uint64_t length = cursor.offset() - base_ + kChecksumBytes;
  checked(0, length, kSuperblock);
  if (version == 3 && (flags & 1) != 0) {
    throw CorruptFileError("superblock: expected a file that was closed, got one that is open for writing");
  }
  check_end(stored_base, end);
}

// If bytes were put before the file later, the base that it states is wrong.
void Hdf5File::check_end(uint64_t stored_base, uint64_t end) const {
  const uint64_t length = end - stored_base;  // a damaged one wraps, to a length that no file has
  if (end < stored_base || length > bytes_.size() - base_) {
    throw CorruptFileError(
        cat("superblock: expected an HDF5 file of ", end, " bytes, got a truncated file of ", bytes_.size()));
  }
}

MetadataCursor Hdf5File::at(uint64_t address, uint64_t length, std::string_view what) const {
  const uint64_t room = bytes_.size() - base_;
  if (address > room || length > room - address) {
    throw CorruptFileError(
        cat(what, ": expected ", length, " bytes in the file, got the address ", address, " of ", room));
  }
  return {bytes_.subspan(base_ + address, length), base_ + address, what};
}

MetadataCursor Hdf5File::from(uint64_t address, std::string_view what) const {
  at(address, 0, what);
  return at(address, bytes_.size() - base_ - address, what);
}

MetadataCursor Hdf5File::checked(uint64_t address, uint64_t length, std::string_view what) const {
  if (length < kChecksumBytes) throw InternalError("a structure too short for its checksum");
  const Bytes whole = at(address, length, what).rest();
  const Bytes covered = whole.first(length - kChecksumBytes);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // defined by clang's fuzzer, which would get no further than to here
  constexpr bool kIsChecked = false;
#else
  constexpr bool kIsChecked = true;
#endif
  if (kIsChecked && lookup3(covered) != load_le<uint32_t>(whole.data() + covered.size())) {
    throw CorruptFileError(cat(what, ": its checksum is that of other bytes"), base_ + address);
  }
  return {covered, base_ + address, what};
}

}  // namespace atompack::torch_cache
