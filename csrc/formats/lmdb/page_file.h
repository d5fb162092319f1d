// Read-only access to the main database of an LMDB file as of its last commit; FORMAT.md. The LMDB library maps files
// and trusts them: a damaged or truncated one kills the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/open_file.h"

namespace atompack::lmdb {

struct Header {
  uint64_t page_bytes = 0;
  uint64_t root = 0;  // number of the root page, or kNoRoot
  uint64_t entries = 0;
  uint64_t last_page = 0;
  uint64_t transaction = 0;

  static constexpr uint64_t kNoRoot = ~uint64_t{0};
};

// Range of a value in the file.
struct ValueRange {
  uint64_t offset = 0, bytes = 0;
};

// Const methods are thread-safe.
class PageFile {
 public:
  // Throws CorruptFileError, UnsupportedFormatError for a different version or kind of database.
  PageFile(std::shared_ptr<const io::OpenFile> file, io::Access access, bool populate);

  const Header& header() const { return header_; }
  const io::ByteSource& bytes() const { return *bytes_; }
  // Throws IoError (ESTALE) if a transaction was committed since this object was made: pages may have been reused.
  void check_unchanged() const;

  // Calls use(key, range) for each entry, in the order of the keys, whose bytes are valid during the call.
  using Use = std::function<void(std::string_view key, const ValueRange& value)>;
  void for_each(const Use& use) const;
  // Returns where the value of a key is; nullopt if there is no such key.
  std::optional<ValueRange> find(std::string_view key) const;
  // Returns the value of a key; nullopt if there is no such key.
  std::optional<std::string> value(std::string_view key) const;

 private:
  Header last_commit() const;
  Header header_at(uint64_t offset) const;
  // Buffers of a walk: pages of keys follow each other, and so do those of values.
  struct Walk {
    io::RangeBuffer pages, values;
    uint64_t n_visited = 0;
  };
  // A page of the tree.
  struct KeyPage {
    uint64_t number;
    Bytes content;
    bool is_branch;
    uint64_t n_nodes;
  };
  KeyPage key_page(uint64_t number, Walk& walk) const;
  // Offset of the i-th node, whose header is in the page.
  uint64_t node_at(const KeyPage& page, uint64_t i) const;
  std::string_view key_of(const KeyPage& page, uint64_t node) const;
  void visit(uint64_t number, int depth, Walk& walk, const Use& use) const;
  ValueRange value_of(const KeyPage& page, uint64_t node, Walk& walk) const;
  [[noreturn]] void fail(uint64_t page, const std::string& what) const;

  std::string path_;
  std::unique_ptr<const io::ByteSource> bytes_;
  Header header_;
};

}  // namespace atompack::lmdb
