#include "codec/inflate.h"

#include <algorithm>
#include <array>

#include "codec/adler32.h"

namespace atompack::codec {
namespace {

constexpr int kLongestCode = 15;
constexpr int kFastBits = 10;

// Bits from the low end of each byte first. Past the end of the stream zeros are read, and counted.
class BitReader {
 public:
  explicit BitReader(Bytes stream) : stream_(stream) {}

  // Afterwards at least 48 bits can be looked at.
  void refill() {
    if (stream_.size() - at_ >= 8) {
      bits_ |= load_le<uint64_t>(stream_.data() + at_) << n_bits_;
      const int taken = (63 - n_bits_) / 8;
      at_ += static_cast<size_t>(taken);
      n_bits_ += 8 * taken;
      return;
    }
    for (; n_bits_ <= 55; n_bits_ += 8) {
      if (at_ < stream_.size()) {
        bits_ |= static_cast<uint64_t>(stream_[at_++]) << n_bits_;
      } else {
        ++n_missing_;
      }
    }
  }

  uint32_t peek(int n) const { return static_cast<uint32_t>(bits_ & ((uint64_t{1} << n) - 1)); }
  void drop(int n) {
    bits_ >>= n;
    n_bits_ -= n;
  }
  uint32_t take(int n) {
    const uint32_t value = peek(n);
    drop(n);
    return value;
  }

  // Where the next whole byte begins; the bits before it are dropped.
  size_t align() {
    drop(n_bits_ % 8);
    return at_ + n_missing_ - static_cast<size_t>(n_bits_ / 8);
  }
  void jump(size_t at) {
    at_ = at;
    bits_ = 0;
    n_bits_ = 0;
    n_missing_ = 0;
  }
  // Whether bits were dropped that the stream does not have.
  bool overran() const { return n_missing_ * 8 > static_cast<size_t>(n_bits_); }
  size_t position() const { return at_; }

 private:
  Bytes stream_;
  size_t at_ = 0;
  size_t n_missing_ = 0;
  uint64_t bits_ = 0;
  int n_bits_ = 0;
};

// A canonical prefix code. Short codes are looked up, longer ones are found length by length.
class PrefixCode {
 public:
  static constexpr int kNone = -1;

  // False if the lengths overfill the code, or leave room in it; one code alone, or none, may leave room.
  bool build(std::span<const uint8_t> lengths) {
    count_ = {};
    for (const uint8_t length : lengths) ++count_[length];
    const size_t used = lengths.size() - count_[0];
    count_[0] = 0;
    int room = 1;
    for (int length = 1; length <= kLongestCode; ++length) {
      room = 2 * room - count_[static_cast<size_t>(length)];
      if (room < 0) return false;
    }
    if (room > 0 && used > 1) return false;
    sort_symbols(lengths);
    fill_fast(lengths);
    return true;
  }

  int decode(BitReader& in) const {
    const uint16_t entry = fast_[in.peek(kFastBits)];
    if (entry != 0) {
      in.drop(entry & 15);
      return entry >> 4;
    }
    return decode_long(in);
  }

 private:
  void sort_symbols(std::span<const uint8_t> lengths) {
    std::array<uint16_t, kLongestCode + 2> first{};
    for (size_t length = 1; length <= kLongestCode; ++length) {
      first[length + 1] = static_cast<uint16_t>(first[length] + count_[length]);
    }
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] != 0) symbols_[first[lengths[symbol]]++] = static_cast<uint16_t>(symbol);
    }
  }

  void fill_fast(std::span<const uint8_t> lengths) {
    fast_.fill(0);
    uint32_t code = 0;
    size_t at = 0;
    for (int length = 1; length <= kFastBits; ++length, code <<= 1) {
      for (int i = 0; i < count_[static_cast<size_t>(length)]; ++i, ++code, ++at) {
        const auto entry = static_cast<uint16_t>(symbols_[at] << 4 | lengths[symbols_[at]]);
        for (uint32_t slot = reversed(code, length); slot < fast_.size(); slot += 1U << length) fast_[slot] = entry;
      }
    }
  }

  static uint32_t reversed(uint32_t code, int length) {
    uint32_t turned = 0;
    for (int i = 0; i < length; ++i) turned |= (code >> i & 1) << (length - 1 - i);
    return turned;
  }

  int decode_long(BitReader& in) const {
    int code = 0;
    int first = 0;
    int at = 0;
    const uint32_t bits = in.peek(kLongestCode);
    for (int length = 1; length <= kLongestCode; ++length) {
      code |= static_cast<int>(bits >> (length - 1) & 1);
      const int n = count_[static_cast<size_t>(length)];
      if (code - first < n) {
        in.drop(length);
        return symbols_[static_cast<size_t>(at + code - first)];
      }
      at += n;
      first = 2 * (first + n);
      code *= 2;
    }
    return kNone;
  }

  std::array<uint16_t, kLongestCode + 1> count_{};
  std::array<uint16_t, 288> symbols_{};
  std::array<uint16_t, 1U << kFastBits> fast_{};
};

constexpr std::array<uint16_t, 29> kLengthBase = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> kLengthExtra = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                  2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint16_t, 30> kDistanceBase = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                    33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<uint8_t, 30> kDistanceExtra = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                    6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr int kEndOfBlock = 256;

class Inflater {
 public:
  Inflater(Bytes stream, std::span<std::byte> out) : stream_(stream), in_(stream), out_(out) {}

  void run() {
    read_header();
    for (bool last = false; !last;) {
      in_.refill();
      last = in_.take(1) != 0;
      const uint32_t kind = in_.take(2);
      if (kind == 3) fail("block: expected one of type 0, 1 or 2, got 3");
      if (kind == 0) {
        copy_stored();
        continue;
      }
      if (kind == 1) {
        build_fixed();
      } else {
        build_dynamic();
      }
      decode_block();
    }
    if (at_ != out_.size()) fail(cat("expected ", out_.size(), " bytes, got ", at_));
    check_sum();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CorruptFileError(cat("deflate stream: ", what), std::min<uint64_t>(in_.position(), stream_.size()));
  }
  void check_end() const {
    if (in_.overran()) fail("it ends too early");
  }

  void read_header() {
    if (stream_.size() < 2) fail(cat("expected a header of 2 bytes, got ", stream_.size()));
    const auto method = static_cast<uint32_t>(stream_[0]);
    const auto flags = static_cast<uint32_t>(stream_[1]);
    // Window of at most 32 KiB, no preset dictionary.
    if ((method & 15) != 8 || method >> 4 > 7 || (method * 256 + flags) % 31 != 0 || (flags & 32) != 0) {
      fail("expected a zlib header, got another");
    }
    in_.jump(2);
  }

  void copy_stored() {
    const size_t at = in_.align();
    check_end();
    ByteCursor cursor(stream_.subspan(at));
    const auto length = cursor.read_le<uint16_t>("deflate stream: length of a stored block");
    const auto inverse = cursor.read_le<uint16_t>("deflate stream: length of a stored block");
    if (length != static_cast<uint16_t>(~inverse)) fail("stored block: its two lengths do not agree");
    if (length > out_.size() - at_) fail(cat("expected ", out_.size(), " bytes, got more"));
    store(out_.data() + at_, cursor.take(length, "deflate stream: stored block"));
    at_ += length;
    in_.jump(at + cursor.position());
  }

  void build_fixed() {
    std::array<uint8_t, 288> lengths;
    std::fill_n(lengths.begin(), 144, uint8_t{8});
    std::fill_n(lengths.begin() + 144, 112, uint8_t{9});
    std::fill_n(lengths.begin() + 256, 24, uint8_t{7});
    std::fill_n(lengths.begin() + 280, 8, uint8_t{8});
    literals_.build(lengths);
    std::array<uint8_t, 32> distances;
    distances.fill(5);
    distances_.build(distances);
  }

  void build_dynamic() {
    const size_t n_literals = in_.take(5) + 257;
    const size_t n_distances = in_.take(5) + 1;
    if (n_literals > 286 || n_distances > 30) fail("block: too many codes");
    read_length_code();
    std::array<uint8_t, 286 + 30> lengths{};
    const std::span<uint8_t> used(lengths.data(), n_literals + n_distances);
    read_lengths(used);
    if (used[kEndOfBlock] == 0) fail("block: it has no code for its end");
    if (!literals_.build(used.first(n_literals))) fail("block: lengths that make no code of literals");
    if (!distances_.build(used.subspan(n_literals))) fail("block: lengths that make no code of distances");
  }

  // The code in which the lengths of the other two are written; literals_ serves for it meanwhile.
  void read_length_code() {
    constexpr std::array<uint8_t, 19> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    std::array<uint8_t, 19> lengths{};
    const size_t n = in_.take(4) + 4;
    for (size_t i = 0; i < n; ++i) {
      in_.refill();
      lengths[kOrder[i]] = static_cast<uint8_t>(in_.take(3));
    }
    if (!literals_.build(lengths)) fail("block: lengths that make no code of lengths");
  }

  void read_lengths(std::span<uint8_t> lengths) {
    for (size_t at = 0; at < lengths.size();) {
      in_.refill();
      const int symbol = literals_.decode(in_);
      check_end();
      if (symbol == PrefixCode::kNone) fail("block: a code that stands for nothing");
      if (symbol < 16) {
        lengths[at++] = static_cast<uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && at == 0) fail("block: a repeated length without one before");
      const uint8_t value = symbol == 16 ? lengths[at - 1] : uint8_t{0};
      const size_t times = symbol == 16 ? 3 + in_.take(2) : symbol == 17 ? 3 + in_.take(3) : 11 + in_.take(7);
      if (times > lengths.size() - at) fail("block: more lengths than codes");
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(at), times, value);
      at += times;
    }
  }

  void decode_block() {
    for (;;) {
      in_.refill();
      const int symbol = literals_.decode(in_);
      if (symbol == PrefixCode::kNone) fail("block: a code that stands for nothing");
      if (symbol < kEndOfBlock) {
        if (at_ == out_.size()) fail(cat("expected ", out_.size(), " bytes, got more"));
        out_[at_++] = static_cast<std::byte>(symbol);
        continue;
      }
      check_end();
      if (symbol == kEndOfBlock) return;
      repeat(static_cast<size_t>(symbol) - kEndOfBlock - 1);
    }
  }

  // One refill covers it: at most 15 bits of code before, 5 + 15 + 13 here.
  void repeat(size_t symbol) {
    if (symbol >= kLengthBase.size()) fail("block: a length that does not exist");
    const size_t length = kLengthBase[symbol] + in_.take(kLengthExtra[symbol]);
    const int code = distances_.decode(in_);
    if (code == PrefixCode::kNone || code >= static_cast<int>(kDistanceBase.size())) {
      fail("block: a distance that does not exist");
    }
    const auto number = static_cast<size_t>(code);
    const size_t distance = kDistanceBase[number] + in_.take(kDistanceExtra[number]);
    check_end();
    if (distance > at_) fail("block: a distance that reaches before the first byte");
    if (length > out_.size() - at_) fail(cat("expected ", out_.size(), " bytes, got more"));
    copy_back(distance, length);
  }

  void copy_back(size_t distance, size_t length) {
    std::byte* const to = out_.data() + at_;
    const std::byte* const from = to - distance;
    if (distance == 1) {
      std::memset(to, static_cast<int>(*from), length);
    } else if (distance >= length) {
      std::memcpy(to, from, length);
    } else {
      for (size_t i = 0; i < length; ++i) to[i] = from[i];
    }
    at_ += length;
  }

  void check_sum() {
    const size_t at = in_.align();
    check_end();
    ByteCursor cursor(stream_.subspan(at));
    const uint32_t stored = __builtin_bswap32(cursor.read_le<uint32_t>("deflate stream: Adler-32"));
    if (const uint32_t found = adler32(out_); found != stored) {
      fail(cat("Adler-32: expected ", stored, ", got ", found));
    }
  }

  Bytes stream_;
  BitReader in_;
  std::span<std::byte> out_;
  size_t at_ = 0;
  PrefixCode literals_, distances_;
};

}  // namespace

void inflate(Bytes stream, std::span<std::byte> out) { Inflater(stream, out).run(); }

}  // namespace atompack::codec
