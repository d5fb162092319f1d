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
#include "formats/array_file/layer/footer.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/write/definition.h"
#include "io/file_system.h"

namespace atompack::array_file {

struct WriterOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;  // of zstd; lz4 uses only its fast mode
  // A block is closed when it reaches this size. nullopt: 8 MiB without a codec, else about 1 MiB, and 512 KiB for
  // arrays of several chunks.
  std::optional<uint64_t> block_bytes = {};
  unsigned n_threads = 0;      // for compression; 0: as many as there are cores
  std::string base_hint = {};  // path of the base that is stored in sidecars
  uint64_t max_metadata_bytes = kMaxMetadataBytes;
  std::optional<uint64_t> max_unstored_bytes = {};  // see layer/footer.h
};

// Changes are pending until a flush writes them as one more layer, all or nothing. Memory is bounded by the size of
// blocks and chunks: pending data is in an unpublished file. For one thread at a time; locks the base, and creates an
// empty one if missing. A refused call changes nothing. After an IoError of write() the chunks of that call may
// be partly written: the call can be repeated, as can all others. In a forked child every call throws LockedError.
class Writer {
 public:
  // `path` is that of the base. Throws IoError, LockedError, CorruptFileError, UnsupportedFormatError, FieldError.
  explicit Writer(const std::string& path, WriterOptions options = {}, io::FileSystem& files = io::real_file_system());
  // Drops unpublished changes.
  ~Writer();

  // Includes pending changes, like all methods below. FieldError if there is no such array.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  ArrayDefinition definition(std::string_view name) const;
  // Views, valid until the next change.
  std::vector<Attribute> attributes(std::string_view name) const;

  // FieldError if the array exists or is invalid: type, axes, chunk shape, size, fill value.
  void define(const ArrayDefinition& definition);
  // Row-major: little-endian numbers, timestamps as int64 nanoseconds. FieldError for an array of strings or binary
  // values, a box out of range, a length other than the box's, and chunks that no block can hold.
  void write(std::string_view name, const Box& box, Bytes numbers);
  // The same for strings, which must be UTF-8, and binary values.
  void write(std::string_view name, const Box& box, std::span<const std::string_view> strings);
  // Adds an attribute, or replaces its value. FieldError for texts that are not UTF-8, and values other than bool,
  // numbers and strings.
  void set_attribute(std::string_view name, std::string_view key, const AttributeValue& value);
  void remove(std::string_view name);

  // Throws FieldError if reading this box would take more memory than stored or pending data justifies.
  void check_unstored(std::string_view name, const Box& box) const;
  // Like read_numbers and read_texts.
  void read(std::string_view name, const Box& box, std::span<std::byte> out);
  void read(std::string_view name, const Box& box, std::span<std::string> out);

  // True if a flush would write a layer.
  bool has_changes() const;

  // The steps of a flush, for callers that make those of several array files visible together. stage() writes all
  // pending changes as a complete, durable layer under a hidden name; false if there are none. A further change
  // discards it.
  bool stage();
  uint32_t staged_number() const;
  // layer_digest() of the staged layer (layer.h); its path is sidecar_path() (layers.h).
  std::string staged_digest() const;
  // Renames the staged layer to its final path, durably: it is part of the array file.
  void publish();
  // Writes STEM.stats; after publish().
  void write_statistics();

  void flush();
  // Drops pending changes, including a staged layer.
  void discard();
  // The same; also removes the base if this writer created it and has published nothing since. No other call may
  // follow.
  void abandon();
  // Flushes, and merges all layers into one.
  void compact();
  // To be called after a flush: merges all layers if the original could not read them, because an array was deleted and
  // defined again with a different number of axes. Returns true if it did.
  bool rewrite_redefined();

 private:
  class Impl;
  Impl& use() const;

  std::string path_;
  int64_t owner_;  // process that opened the file
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::array_file
