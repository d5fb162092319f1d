// Writer of a store.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "codec/codec.h"
#include "formats/array_file/read/box.h"
#include "formats/array_file/write/definition.h"
#include "formats/atlas_store/metadata/metadata_file.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// create: no store is there yet; an empty one is at once. append: goes on with what is there, or creates it.
enum class Mode : uint8_t { create, append };

struct WriterOptions {
  std::optional<codec::Codec> codec = {};  // of new blocks; nothing: the store's own, for a new one zstd
  Form form = Form::json;                  // of a new store's metadata file
  int level = 3;
  uint64_t block_bytes = uint64_t{8} << 20;
  unsigned n_threads = 0;  // that compress; 0: as many as there are cores
  uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes;
  std::optional<uint64_t> max_unstored_bytes = {};  // see formats/array_file/layer/limits.h
};

// All changes are pending until a flush makes them visible, those of all variables together; a flush that is stopped
// leaves the store as it was. One writer at a time; readers do not wait for it. For one thread at a time. A refused
// call changes nothing. After an IoError of flush() it can be called again; other changes may have to wait until it is
// done. In a forked child every call throws LockedError.
class Writer {
 public:
  // Throws LockedError; IoError (EEXIST) where a store is to be created and one is there; CorruptFileError and
  // UnsupportedFormatError for a store that cannot be read.
  Writer(const std::string& path, Mode mode, const WriterOptions& options = {},
         io::FileSystem& files = io::real_file_system());
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  // What was not flushed is dropped.
  ~Writer();

  // With what is pending, as all below.
  const Metadata& metadata() const;

  array_file::ArrayDefinition definition(std::string_view dataset, std::string_view array) const;

  // FieldError for names that exist or may not be used, for datasets and arrays that do not exist, and for what
  // array_file::Writer refuses. `definition.name` is the array's.
  void create_dataset(std::string_view name);
  void define_array(std::string_view dataset, const array_file::ArrayDefinition& definition);
  void write(std::string_view dataset, std::string_view array, const array_file::Box& box, Bytes numbers);
  void write(std::string_view dataset, std::string_view array, const array_file::Box& box,
             std::span<const std::string_view> texts);
  // FieldError also for values that would not come back as they are: numbers that are not finite, in JSON; texts that
  // read as moments; what is not UTF-8.
  void set_attribute(std::string_view dataset, std::string_view key, const AttributeValue& value);
  void delete_array(std::string_view dataset, std::string_view array);
  void delete_dataset(std::string_view name);

  // As array_file::Writer has it.
  void check_unstored(std::string_view dataset, std::string_view array, const array_file::Box& box);
  void read(std::string_view dataset, std::string_view array, const array_file::Box& box, std::span<std::byte> out);
  void read(std::string_view dataset, std::string_view array, const array_file::Box& box, std::span<std::string> out);

  // IoError (ESTALE) if a program that knows of no locks has written to the store meanwhile; nothing is changed then.
  void flush();
  // Flushes, and makes one layer of each variable's.
  void compact();

  // Drops what is pending, with the array files that were made for it, and the whole store if this writer made it and
  // did not flush. No other call may follow.
  void abandon();

 private:
  class Impl;
  Impl& use() const;

  std::string path_;
  int64_t owner_;  // the process that opened it
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::atlas_store
