#include "formats/lmdb/page_file.h"

#include <bit>
#include <cerrno>

#include "base/error.h"

namespace atompack::lmdb {
namespace {

constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4;             // flags of pages
constexpr uint16_t kBigValue = 1, kSubDatabase = 2, kDuplicates = 4;  // flags of nodes
constexpr uint64_t kPageHeader = 16, kNodeHeader = 8;
constexpr uint64_t kMinEntryBytes = 2 + kNodeHeader + 1;  // an offset, a node and its key
constexpr uint64_t kMetaBytes = 24, kDatabaseBytes = 48;
constexpr uint64_t kHeaderBytes = kPageHeader + kMetaBytes + 2 * kDatabaseBytes + 16;
constexpr int kMaxDepth = 32;
constexpr uint64_t kReadAhead = 16 << 10;

uint16_t flags_of(Bytes page) { return load_le<uint16_t>(page.data() + 10); }

// Page that a branch node points to.
uint64_t child_of(Bytes page, uint64_t node) {
  const std::byte* const at = page.data() + node;
  return load_le<uint32_t>(at) | uint64_t{load_le<uint16_t>(at + 4)} << 32;
}

}  // namespace

PageFile::PageFile(std::shared_ptr<const io::OpenFile> file, io::Access access, bool populate) : path_(file->path()) {
  bytes_ = file->bytes(file->version().size, access, populate);
  header_ = in_file(path_, [&] { return last_commit(); });
}

// Each commit overwrites the older of the two headers.
Header PageFile::last_commit() const {
  const Header first = header_at(0), second = header_at(first.page_bytes);
  return second.transaction > first.transaction ? second : first;
}

Header PageFile::header_at(uint64_t offset) const {
  const uint64_t size = bytes_->length();
  if (size < kHeaderBytes || offset > size - kHeaderBytes) throw_corrupt("expected an LMDB file, got ", size, " bytes");
  io::RangeBuffer buffer;
  const Bytes bytes = bytes_->bytes(offset, kHeaderBytes, buffer);
  const std::byte* const meta = bytes.data() + kPageHeader;
  if (load_le<uint32_t>(meta) != kMagic) throw CorruptFileError("expected an LMDB file, got another", offset + 16);
  if (const auto version = load_le<uint32_t>(meta + 4); version != kVersion) {
    throw UnsupportedFormatError(cat("version: expected ", kVersion, ", got ", version), offset + 20);
  }
  const std::byte* const free_database = meta + kMetaBytes;
  const std::byte* const database = free_database + kDatabaseBytes;
  Header header;
  header.page_bytes = load_le<uint32_t>(free_database);
  if (!std::has_single_bit(header.page_bytes) || header.page_bytes < 256 || header.page_bytes > 65536) {
    throw CorruptFileError(cat("size of pages: expected a power of two from 256 to 65536, got ", header.page_bytes),
                           offset + 40);
  }
  if (const auto flags = load_le<uint16_t>(database + 4); flags != 0) {
    throw UnsupportedFormatError(cat("flags of the database: expected 0, got ", flags));
  }
  header.entries = load_le<uint64_t>(database + 32);
  if (header.entries > size / kMinEntryBytes) {
    throw CorruptFileError(cat("expected keys in the file, got ", header.entries, " of them"), offset + 120);
  }
  header.root = load_le<uint64_t>(database + 40);
  header.last_page = load_le<uint64_t>(database + kDatabaseBytes);
  header.transaction = load_le<uint64_t>(database + kDatabaseBytes + 8);
  return header;
}

void PageFile::check_unchanged() const {
  bytes_->check_not_shrunk();
  if (last_commit().transaction == header_.transaction) return;
  throw IoError(ESTALE, "the database was written to since it was opened; refresh() reads it again", path_);
}

void PageFile::fail(uint64_t page, const std::string& what) const {
  CorruptFileError error(cat("page ", page, ": ", what), page * header_.page_bytes);
  throw error.in_file(path_);
}

PageFile::KeyPage PageFile::key_page(uint64_t number, Walk& walk) const {
  const uint64_t n_pages = bytes_->length() / header_.page_bytes;
  if (number > header_.last_page) fail(number, cat("expected pages up to ", header_.last_page));
  if (number >= n_pages) {
    fail(number, cat("expected a file of ", (header_.last_page + 1) * header_.page_bytes, " bytes, got ",
                     bytes_->length(), ": it was cut"));
  }
  const Bytes content = bytes_->bytes(number * header_.page_bytes, header_.page_bytes, walk.pages, kReadAhead);
  const auto own = load_le<uint64_t>(content.data());
  if (own != number) fail(number, cat("expected a page of this number, got ", own));
  const uint16_t flags = flags_of(content);
  const auto lower = load_le<uint16_t>(content.data() + 12);
  const bool is_branch = (flags & kBranch) != 0;
  if (!is_branch && (flags & kLeaf) == 0) fail(number, cat("expected a page of keys, got flags ", flags));
  if (lower < kPageHeader || lower > content.size()) fail(number, cat("expected offsets in the page, got ", lower));
  const uint64_t n_nodes = (lower - kPageHeader) / 2;
  if (is_branch && n_nodes == 0) fail(number, "expected a page of keys, got an empty one");
  return {number, content, is_branch, n_nodes};
}

uint64_t PageFile::node_at(const KeyPage& page, uint64_t i) const {
  const uint64_t node = load_le<uint16_t>(page.content.data() + kPageHeader + 2 * i);
  if (node + kNodeHeader > page.content.size()) {
    fail(page.number, cat("expected a node in the page, got one at ", node));
  }
  return node;
}

std::string_view PageFile::key_of(const KeyPage& page, uint64_t node) const {
  const uint64_t key_bytes = load_le<uint16_t>(page.content.data() + node + 6);
  if (node + kNodeHeader + key_bytes > page.content.size())
    fail(page.number, "expected a key in the page, got its end");
  return as_text(page.content.subspan(node + kNodeHeader, key_bytes));
}

std::optional<ValueRange> PageFile::find(std::string_view key) const {
  Walk walk;
  uint64_t number = header_.root;
  if (number == Header::kNoRoot) return std::nullopt;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const KeyPage page = key_page(number, walk);
    // The first key of a branch counts as less than all others.
    uint64_t low = page.is_branch ? 1 : 0, high = page.n_nodes;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      const bool is_above = key_of(page, node_at(page, middle)) > key;
      is_above ? high = middle : low = middle + 1;
    }
    if (low == 0) return std::nullopt;
    const uint64_t node = node_at(page, low - 1);
    if (!page.is_branch) return key_of(page, node) == key ? std::optional(value_of(page, node, walk)) : std::nullopt;
    number = child_of(page.content, node);
  }
  fail(number, cat("expected at most ", kMaxDepth, " levels, got more"));
}

std::optional<std::string> PageFile::value(std::string_view key) const {
  const std::optional<ValueRange> range = find(key);
  if (!range) return std::nullopt;
  io::RangeBuffer buffer;
  return std::string(as_text(bytes_->bytes(range->offset, range->bytes, buffer)));
}

void PageFile::for_each(const Use& use) const {
  Walk walk;
  if (header_.root != Header::kNoRoot) visit(header_.root, 0, walk, use);
}

void PageFile::visit(uint64_t number, int depth, Walk& walk, const Use& use) const {
  // A page that several others name would be visited many times.
  const uint64_t n_pages = bytes_->length() / header_.page_bytes;
  if (depth == kMaxDepth || ++walk.n_visited > n_pages) {
    fail(number, "expected a tree of pages, got more");
  }
  const KeyPage page = key_page(number, walk);
  std::vector<uint64_t> children;  // visited when this page is no longer needed: they use its buffer
  for (uint64_t i = 0; i < page.n_nodes; ++i) {
    const uint64_t node = node_at(page, i);
    if (page.is_branch) {
      children.push_back(child_of(page.content, node));
    } else {
      use(key_of(page, node), value_of(page, node, walk));
    }
  }
  for (const uint64_t child : children) visit(child, depth + 1, walk, use);
}

ValueRange PageFile::value_of(const KeyPage& page, uint64_t node, Walk& walk) const {
  const uint64_t number = page.number;
  const Bytes content = page.content;
  const std::byte* const at = content.data() + node;
  const uint64_t size = load_le<uint32_t>(at);
  const auto flags = load_le<uint16_t>(at + 4);
  const uint64_t begin = node + kNodeHeader + load_le<uint16_t>(at + 6);
  if ((flags & (kSubDatabase | kDuplicates)) != 0) fail(number, cat("expected a value, got a node with flags ", flags));
  if ((flags & kBigValue) == 0) {
    if (begin + size > content.size())
      fail(number, cat("expected a value of ", size, " bytes, got the end of the page"));
    return {number * header_.page_bytes + begin, size};
  }
  if (begin + 8 > content.size()) fail(number, "expected the number of a page, got the end of the page");
  const auto first = load_le<uint64_t>(content.data() + begin);
  const uint64_t n_pages = (kPageHeader + size + header_.page_bytes - 1) / header_.page_bytes;
  if (first > header_.last_page || n_pages > header_.last_page - first + 1) {
    fail(first, cat("expected pages up to ", header_.last_page));
  }
  const bool is_there = first < bytes_->length() / header_.page_bytes;
  const uint64_t offset = is_there ? first * header_.page_bytes : bytes_->length();
  if (offset + kPageHeader + size > bytes_->length()) {
    fail(first, cat("expected a value of ", size, " bytes, got the end of the file: it was cut"));
  }
  const Bytes head = bytes_->bytes(offset, kPageHeader, walk.values, kReadAhead);
  if (load_le<uint64_t>(head.data()) != first || (flags_of(head) & kOverflow) == 0) {
    fail(first, "expected a page of a value, got another");
  }
  return {offset + kPageHeader, size};
}

}  // namespace atompack::lmdb
