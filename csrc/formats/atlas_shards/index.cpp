#include "formats/atlas_shards/index.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked_math.h"
#include "base/excerpt.h"

namespace atompack::atlas_shards {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// Parser of the header string, a dict as Python writes it.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  bool take_if(std::string_view token) {
    skip_blanks();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  void take(std::string_view token) {
    if (!take_if(token)) wrong(token);
  }

  std::string_view take_quoted() {
    const std::string_view quote = take_if("'") ? "'" : "\"";
    if (quote == "\"") take(quote);
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) wrong("the end of a text");
    const std::string_view quoted = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return quoted;
  }

  uint64_t take_size() {
    skip_blanks();
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
    if (error != std::errc()) wrong("a size of at most 64 bits");
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return size;
  }

  bool at_end() {
    skip_blanks();
    return text_.empty();
  }

  [[noreturn]] void wrong(std::string_view expected) const {
    throw_corrupt("npy header: expected ", expected, ", got ", excerpt(text_));
  }

 private:
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }

  std::string_view text_;
};

struct Fields {
  std::string_view type;
  std::vector<uint64_t> shape;
  bool has_type = false, has_order = false, has_shape = false;
};

std::vector<uint64_t> take_shape(HeaderText& text) {
  std::vector<uint64_t> shape;
  text.take("(");
  while (!text.take_if(")")) {
    shape.push_back(text.take_size());
    if (!text.take_if(",")) {
      text.take(")");
      break;
    }
  }
  return shape;
}

// True the first time.
bool first(bool& seen) { return !std::exchange(seen, true); }

void take_field(HeaderText& text, Fields& fields) {
  const std::string_view key = text.take_quoted();
  text.take(":");
  if (key == "descr" && first(fields.has_type)) {
    fields.type = text.take_quoted();
  } else if (key == "fortran_order" && first(fields.has_order)) {
    if (!text.take_if("False")) text.take("True");  // equivalent in one dimension
  } else if (key == "shape" && first(fields.has_shape)) {
    fields.shape = take_shape(text);
  } else {
    text.wrong(cat("each of descr, fortran_order and shape once; found ", excerpt(key)));
  }
}

Fields parse_fields(std::string_view header) {
  HeaderText text(header);
  Fields fields;
  text.take("{");
  while (!text.take_if("}")) {
    take_field(text, fields);
    if (!text.take_if(",")) {
      text.take("}");
      break;
    }
  }
  if (!text.at_end()) text.wrong("nothing after the dict");
  if (!fields.has_type || !fields.has_order || !fields.has_shape) text.wrong("descr, fortran_order and shape");
  return fields;
}

std::string_view header_text(ByteCursor& cursor) {
  if (as_text(cursor.take(kMagic.size(), "npy magic")) != kMagic)
    throw CorruptFileError("npy header: expected its magic number, got other bytes");
  const auto major = cursor.read_le<uint8_t>("npy version");
  const auto minor = cursor.read_le<uint8_t>("npy version");
  if (major < 1 || major > 3 || minor != 0) {
    throw UnsupportedFormatError(cat("npy version: expected 1.0, 2.0 or 3.0, got ", int{major}, '.', int{minor}));
  }
  const uint64_t size = major == 1 ? cursor.read_le<uint16_t>("npy header size")  //
                                   : cursor.read_le<uint32_t>("npy header size");
  return as_text(cursor.take(size, "npy header"));
}

constexpr uint64_t kMaxHeaderBytes = 1 << 16;
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;

void check_size(const NpyHeader& header, Bytes npy, uint64_t n_blocks) {
  const uint64_t expected = checked_add(n_blocks, 1, "index offsets");
  if (header.count != expected) throw_corrupt("index: expected ", expected, " offsets, got ", header.count);
  ByteCursor cursor(npy);
  cursor.take(header.data_begin, "npy header");
  cursor.take(checked_mul(header.count, header.item_bytes, "index bytes"), "index offsets");
}

}  // namespace

NpyHeader parse_npy_header(Bytes file) {
  ByteCursor cursor(file);
  const Fields fields = parse_fields(header_text(cursor));
  const std::string_view type = fields.type;
  const bool is_integer = type.size() == 3 && std::string_view("<>|").find(type[0]) != type.npos &&
                          std::string_view("iu").find(type[1]) != type.npos &&
                          std::string_view("1248").find(type[2]) != type.npos && (type[0] != '|' || type[2] == '1');
  if (!is_integer) throw_corrupt("npy element type: expected integers, got ", excerpt(type));
  if (fields.shape.size() != 1) throw_corrupt("npy shape: expected 1 dimension, got ", fields.shape.size());
  return {.data_begin = cursor.position(),
          .count = fields.shape[0],
          .item_bytes = static_cast<uint8_t>(type[2] - '0'),
          .is_signed = type[1] == 'i',
          .big_endian = type[0] == '>'};
}

std::vector<std::byte> encode_npy_header(uint64_t count, uint8_t item_bytes) {
  constexpr size_t kFront = 10, kAlignment = 64;  // magic, version and the size of the header string
  std::string text = cat("{'descr': '", item_bytes == 1 ? '|' : '<', 'u', int{item_bytes},
                         "', 'fortran_order': False, 'shape': (", count, ",), }");
  const size_t whole = (kFront + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - kFront - 1, ' ');
  text += '\n';
  std::string front = cat(kMagic, '\1', '\0');
  const auto size = static_cast<uint16_t>(text.size());
  front += {static_cast<char>(size & 0xFF), static_cast<char>(size >> 8)};
  front += text;
  const Bytes bytes = as_bytes(front);
  return {bytes.begin(), bytes.end()};
}

BlockIndex::BlockIndex(std::vector<std::byte> npy, uint64_t n_blocks, uint64_t data_bytes)
    : header_(parse_npy_header(npy)), n_blocks_(n_blocks), npy_(std::move(npy)) {
  check_size(header_, npy_, n_blocks_);
  check(data_bytes);
}

uint64_t BlockIndex::max_file_bytes(uint64_t n_blocks) {
  const uint64_t bytes = checked_mul(checked_add(n_blocks, 1, "index offsets"), 8, "index bytes");
  return std::min(checked_add(bytes, kMaxHeaderBytes, "index bytes"), kMaxBytes);
}

uint64_t BlockIndex::offset(uint64_t i) const {
  const std::byte* const from = &npy_[header_.data_begin + i * header_.item_bytes];
  const bool swaps = header_.big_endian;
  switch (header_.item_bytes) {
    case 1:
      return static_cast<uint64_t>(*from);
    case 2:
      return swaps ? __builtin_bswap16(load_le<uint16_t>(from)) : load_le<uint16_t>(from);
    case 4:
      return swaps ? __builtin_bswap32(load_le<uint32_t>(from)) : load_le<uint32_t>(from);
    default:
      return swaps ? __builtin_bswap64(load_le<uint64_t>(from)) : load_le<uint64_t>(from);
  }
}

void BlockIndex::check(uint64_t data_bytes) const {
  // A negative number would look like a large one.
  const uint64_t max_offset = header_.is_signed ? (uint64_t{1} << (8 * header_.item_bytes - 1)) - 1 : UINT64_MAX;
  uint64_t before = 0;
  for (uint64_t i = 0; i <= n_blocks_; ++i) {
    const uint64_t here = offset(i);
    if (here > max_offset) throw_corrupt("index: expected no negative offset, got one at ", i);
    if (here < before) throw_corrupt("index: expected offset ", i, " to be at least ", before, ", got ", here);
    before = here;
  }
  if (before > data_bytes) {
    throw CorruptFileError(
        cat("index: expected blocks inside the ", data_bytes, " bytes of data, got an end at ", before));
  }
}

std::vector<std::byte> encode_index(std::span<const uint64_t> offsets) {
  const uint64_t last = offsets.back();
  const uint8_t item_bytes = last <= UINT8_MAX ? 1 : last <= UINT16_MAX ? 2 : last <= UINT32_MAX ? 4 : 8;
  std::vector<std::byte> npy = encode_npy_header(offsets.size(), item_bytes);
  npy.reserve(npy.size() + offsets.size() * item_bytes);
  for (const uint64_t offset : offsets) {
    append(npy, std::as_bytes(std::span(&offset, 1)).first(item_bytes));
  }
  return npy;
}

Block decompress_block(Bytes stored, const codec::ZstdDictionary* dictionary, uint64_t max_bytes) {
  const codec::ZstdFrame frame = codec::zstd_first_frame(stored);
  if (!frame.content_bytes) throw CorruptFileError("zstd content size: expected one, got none");
  const uint64_t size = *frame.content_bytes;
  const uint64_t bound = frame.bound < max_bytes ? frame.bound : max_bytes;
  if (size > bound) throw_corrupt("zstd content size: expected at most ", bound, " bytes, got ", size);
  Block block(size);
  const Bytes first = stored.first(frame.stored_bytes);
  dictionary ? dictionary->decompress(first, block.writable()) : codec::zstd_decompress(first, block.writable());
  return block;
}

ParsedBlock::ParsedBlock(Block block, uint64_t n_examples, pickle::Machine& machine)
    : block_(std::move(block)), examples_(machine.run_and_keep(block_.bytes())) {
  const Value list = examples_.value();
  if (list.kind() != Kind::list && list.kind() != Kind::tuple) {
    throw_corrupt("block: expected a list of examples, got ", name_of(list.kind()));
  }
  if (list.size() < n_examples) throw_corrupt("block: expected ", n_examples, " examples, got ", list.size());
}

}  // namespace atompack::atlas_shards
