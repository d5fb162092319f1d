// Writer of a store.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "codec/codec.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/write/definition.h"
#include "formats/atlas_store/metadata/metadata_file.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// create: the store must not exist; an empty one is created immediately. append: continues an existing store or creates
// one.
enum class Mode : uint8_t { create, append };

struct WriterOptions {
  std::optional<codec::Codec> codec = {};  // for new blocks; nullopt: the store's own, zstd for a new one
  Form form = Form::json;                  // of a new store's metadata file
  int level = 3;
  std::optional<uint64_t> block_bytes = {};  // see array_file::WriterOptions
  unsigned n_threads = 0;                    // for compression; 0: as many as there are cores
  uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes;
  std::optional<uint64_t> max_unstored_bytes = {};  // see formats/array_file/layer/footer.h
};

// All changes are pending until a flush makes them visible, those of all variables together; an interrupted flush
// leaves the store unchanged. One writer at a time; readers do not block. For one thread at a time. A refused call
// changes nothing. After an IoError flush() can be called again; other changes may have to wait until it succeeds. In a
// forked child every call throws LockedError.
class Writer {
 public:
  // Throws LockedError; IoError (EEXIST) if a store to be created exists; CorruptFileError and UnsupportedFormatError
  // for an unreadable store.
  Writer(const std::string& path, Mode mode, const WriterOptions& options = {},
         io::FileSystem& files = io::real_file_system());
  // Drops changes that were not flushed.
  ~Writer();

  // Includes pending changes, like all methods below.
  const Metadata& metadata() const;

  array_file::ArrayDefinition definition(std::string_view dataset, std::string_view array) const;

  // FieldError for existing or invalid names, for missing datasets and arrays, and for errors of array_file::Writer.
  // `definition.name` is the array's.
  void create_dataset(std::string_view name);
  void define_array(std::string_view dataset, const array_file::ArrayDefinition& definition);
  void write(std::string_view dataset, std::string_view array, const array_file::Box& box, Bytes numbers);
  void write(std::string_view dataset, std::string_view array, const array_file::Box& box,
             std::span<const std::string_view> strings);
  // FieldError also for values that would not be read back unchanged: non-finite numbers in JSON, strings that read as
  // timestamps, and strings that are not UTF-8.
  void set_attribute(std::string_view dataset, std::string_view key, const AttributeValue& value);
  void delete_array(std::string_view dataset, std::string_view array);
  void delete_dataset(std::string_view name);

  // Like array_file::Writer::check_unstored().
  void check_unstored(std::string_view dataset, std::string_view array, const array_file::Box& box);
  void read(std::string_view dataset, std::string_view array, const array_file::Box& box, std::span<std::byte> out);
  void read(std::string_view dataset, std::string_view array, const array_file::Box& box, std::span<std::string> out);

  // IoError (ESTALE) if a program that takes no locks has written to the store in the meantime; in that
  // case nothing is changed.
  void flush();
  // Flushes, and merges the layers of each variable into one.
  void compact();
  // To be called after a flush: array_file::Writer::rewrite_redefined() of the variables that were changed.
  bool rewrite_redefined();

  // Drops pending changes and the array files created for them, and the whole store if this writer created it and did
  // not flush. No other call may follow.
  void abandon();

 private:
  class Impl;
  Impl& use() const;

  std::string path_;
  int64_t owner_;  // process that opened the store
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::atlas_store
