// Writer of an array file: STEM.af with its sidecars (FORMAT.md, "Writing").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "codec/codec.h"
#include "formats/array_file/layer/limits.h"
#include "formats/array_file/read/box.h"
#include "formats/array_file/write/definition.h"
#include "io/file_system.h"

namespace atompack::array_file {

struct WriterOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;                             // of zstd; lz4 has its fast mode only
  uint64_t block_bytes = uint64_t{8} << 20;  // a block is closed once it has as many
  unsigned n_threads = 0;                    // that compress; 0: as many as there are cores
  std::string base_hint = {};                // what sidecars say of the base's place
  uint64_t max_metadata_bytes = kMaxMetadataBytes;
  std::optional<uint64_t> max_unstored_bytes = {};  // see limits.h
};

// Changes are pending until a flush makes them one more layer, all or nothing. Memory is bounded by the size of blocks
// and chunks: what is pending lies in a file that has no name yet. For one thread at a time; locks the base, and makes
// an empty one where there is none. A refused call changes nothing. After an IoError of write() the chunks of that call
// may be written in part: it can be made again, as all other calls. In a forked child every call throws LockedError.
class Writer {
 public:
  // `path` is that of the base. Throws IoError, LockedError, CorruptFileError, UnsupportedFormatError, FieldError.
  explicit Writer(const std::string& path, WriterOptions options = {}, io::FileSystem& files = io::real_file_system());
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  // What was not published is dropped.
  ~Writer();

  // With what is pending, as all below. FieldError if there is no such array.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  ArrayDefinition definition(std::string_view name) const;

  // FieldError if there is such an array, or if it cannot be written: type, axes, chunk shape, size, fill value.
  void define(const ArrayDefinition& definition);
  // Row-major: little-endian numbers, timestamps as int64 nanoseconds. FieldError for another type of array, a box that
  // does not lie in it, another length than the box's, and for chunks that no block can hold.
  void write(std::string_view name, const Box& box, Bytes numbers);
  // The same for strings, which must be UTF-8, and binary values.
  void write(std::string_view name, const Box& box, std::span<const std::string_view> texts);
  void remove(std::string_view name);

  // Throws FieldError where a read of this box would take more memory than what is stored or pending justifies.
  void check_unstored(std::string_view name, const Box& box) const;
  // As read_numbers and read_texts.
  void read(std::string_view name, const Box& box, std::span<std::byte> out);
  void read(std::string_view name, const Box& box, std::span<std::string> out);

  // Whether a flush would make a layer.
  bool has_news() const;

  // The steps of a flush, for who wants to make those of several array files visible together. stage(): all that is
  // pending is a whole layer, durable, under a hidden name; false if nothing is. A change undoes it.
  bool stage();
  uint32_t staged_number() const;
  // layer_digest() of it (layer_digest.h); sidecar_path() (layer_files.h) is where it goes.
  std::string staged_digest() const;
  // The staged layer gets its name, durably: it is part of the array file.
  void publish();
  // STEM.stats after publish().
  void write_statistics();

  void flush();
  // Drops what is pending, a staged layer too.
  void discard();
  // The same; and removes the base if this writer made it and published nothing since. No other call may follow then.
  void abandon();
  // Flushes, and makes one layer of all.
  void compact();

 private:
  class Impl;
  Impl& use() const;

  std::string path_;
  int64_t owner_;  // the process that opened it
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::array_file
