// Metadata as a document in JSON or MessagePack (FORMAT.md, "Metadata").
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/excerpt.h"
#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "serial/document.h"

namespace atompack::atlas_store {

// Spelling of types and codecs.

inline constexpr std::string_view kList = "list", kFixedList = "fixed_size_list";

inline constexpr std::array<std::pair<std::string_view, array_file::Type>, 14> kTypes{{
    {"bool", array_file::Type::boolean},
    {"int8", array_file::Type::int8},
    {"int16", array_file::Type::int16},
    {"int32", array_file::Type::int32},
    {"int64", array_file::Type::int64},
    {"u_int8", array_file::Type::uint8},
    {"u_int16", array_file::Type::uint16},
    {"u_int32", array_file::Type::uint32},
    {"u_int64", array_file::Type::uint64},
    {"float32", array_file::Type::float32},
    {"float64", array_file::Type::float64},
    {"string", array_file::Type::string},
    {"binary", array_file::Type::binary},
    {"timestamp_nanoseconds", array_file::Type::timestamp},
}};

inline constexpr std::array<std::pair<std::string_view, codec::Codec>, 3> kCodecs{{
    {"Zstd", codec::Codec::zstd},
    {"Lz4", codec::Codec::lz4},
    {"Uncompressed", codec::Codec::none},
}};

template <typename Kind, size_t kSize>
std::optional<Kind> kind_of(const std::array<std::pair<std::string_view, Kind>, kSize>& table, std::string_view name) {
  for (const auto& [spelling, kind] : table) {
    if (spelling == name) return kind;
  }
  return std::nullopt;
}

template <typename Kind, size_t kSize>
std::string_view spelling_of(const std::array<std::pair<std::string_view, Kind>, kSize>& table, Kind kind) {
  for (const auto& [spelling, other] : table) {
    if (other == kind) return spelling;
  }
  return "?";
}

// Decoding of array schemas from a document.
using serial::Number;
using serial::skip_value;
using serial::Token;

template <typename In>
void expect(In& in, Token expected, std::string_view what) {
  const Token got = in.peek();
  if (got == expected) return;
  throw CorruptFileError(cat(what, ": expected ", name_of(expected), ", got ", name_of(got)), in.position());
}

template <typename In>
void once(In& in, bool& seen, std::string_view key) {
  if (seen) throw CorruptFileError(cat(key, ": duplicate key"), in.position());
  seen = true;
}

template <typename In>
uint64_t natural(In& in, std::string_view what) {
  expect(in, Token::number, what);
  const uint64_t at = in.position();
  const Number number = in.number();
  if (const auto* const value = std::get_if<uint64_t>(&number)) return *value;
  throw CorruptFileError(cat(what, ": expected an integer from 0, got another number"), at);
}

template <typename In>
std::vector<uint64_t> decode_sizes(In& in, std::string_view what) {
  expect(in, Token::list, what);
  std::vector<uint64_t> sizes;
  for (auto scope = in.enter_list(); in.next_item(scope);) sizes.push_back(natural(in, what));
  return sizes;
}

template <typename In>
std::vector<std::string> decode_texts(In& in, std::string_view what) {
  expect(in, Token::list, what);
  std::vector<std::string> strings;
  for (auto scope = in.enter_list(); in.next_item(scope);) {
    expect(in, Token::text, what);
    strings.emplace_back(in.text());
  }
  return strings;
}

template <typename In>
codec::Codec decode_codec(In& in) {
  expect(in, Token::text, "codec");
  const std::string_view name = in.text();
  if (const auto codec = kind_of(kCodecs, name)) return *codec;
  throw UnsupportedFormatError(cat("codec: expected Zstd, Lz4 or Uncompressed, got ", excerpt(name)));
}

// Value of "args": the type in a list, and the size of fixed lists. Keys may come in any order, so it is interpreted at
// the end.
template <typename In>
class DataTypeDecoder {
 public:
  explicit DataTypeDecoder(In& in) : in_(in) {}

  DataType decode(size_t depth = 0) {
    constexpr size_t kMaxLists = 32;
    if (depth > kMaxLists) fail(cat("a nesting depth of at most ", kMaxLists, " lists"), "more");
    expect(in_, Token::map, "dtype");
    bool has_type = false, has_arguments = false;
    std::string tag;
    Arguments arguments;
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      if (key == "type") {
        once(in_, has_type, "dtype");
        expect(in_, Token::text, "dtype");
        tag = in_.text();
      } else if (key == "args") {
        once(in_, has_arguments, "dtype arguments");
        arguments = decode_arguments(depth);
      } else {
        skip_value(in_);
      }
    }
    if (!has_type) fail("a type", "none");
    return make_type(tag, arguments);
  }

 private:
  struct Arguments {
    std::optional<DataType> child;
    std::optional<uint64_t> size;
    bool given = false;
  };

  Arguments decode_arguments(size_t depth) {
    Arguments arguments;
    if (in_.peek() == Token::null) {
      in_.null();
      return arguments;
    }
    expect(in_, Token::map, "dtype arguments");
    arguments.given = true;
    bool has_child = false, has_size = false;
    std::string_view key;
    for (auto scope = in_.enter_map(); in_.next_key(scope, key);) {
      if (key == "child") {
        once(in_, has_child, "child");
        arguments.child = decode(depth + 1);
      } else if (key == "size") {
        once(in_, has_size, "size");
        arguments.size = natural(in_, "size");
      } else {
        skip_value(in_);
      }
    }
    return arguments;
  }

  DataType make_type(const std::string& tag, Arguments& arguments) {
    if (const auto type = kind_of(kTypes, tag)) {
      if (arguments.given) fail(cat(tag, " without arguments"), "some");
      return {*type, {}};
    }
    const bool fixed = tag == kFixedList;
    if (!fixed && tag != kList) throw UnsupportedFormatError(cat("dtype: expected a known type, got ", excerpt(tag)));
    if (!arguments.child) fail("the type in the list", "none");
    if (fixed && !arguments.size) fail("the size of the list", "none");
    DataType type = std::move(*arguments.child);
    type.lists.insert(type.lists.begin(), fixed ? arguments.size : std::nullopt);
    return type;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view got) {
    throw CorruptFileError(cat("dtype: expected ", expected, ", got ", got), in_.position());
  }

  In& in_;
};

template <typename In>
Schema decode_schema(In& in) {
  expect(in, Token::map, "array");
  bool has_dtype = false, has_shape = false, has_chunk_shape = false, has_names = false, has_codec = false;
  Schema schema;
  std::string_view key;
  for (auto scope = in.enter_map(); in.next_key(scope, key);) {
    if (key == "dtype") {
      once(in, has_dtype, "dtype");
      schema.dtype = DataTypeDecoder<In>(in).decode();
    } else if (key == "shape") {
      once(in, has_shape, "shape");
      schema.shape = decode_sizes(in, "shape");
    } else if (key == "chunk_shape") {
      once(in, has_chunk_shape, "chunk shape");
      schema.chunk_shape = decode_sizes(in, "chunk shape");
    } else if (key == "dimension_names") {
      once(in, has_names, "dimension names");
      schema.dimension_names = decode_texts(in, "dimension names");
    } else if (key == "codec") {
      once(in, has_codec, "codec");
      schema.codec = decode_codec(in);
    } else {
      skip_value(in);
    }
  }
  if (!has_dtype || !has_shape || !has_chunk_shape || !has_names || !has_codec) {
    throw CorruptFileError("array: expected dtype, shape, chunk_shape, dimension_names and codec, got not all of them",
                           in.position());
  }
  return schema;
}

// Throw CorruptFileError, and UnsupportedFormatError for unknown versions, types and codecs. Errors name dataset and
// array.
Metadata decode_json(Bytes text);
Metadata decode_msgpack(Bytes bytes);

// Byte for byte as the original writes it. Throw FieldError, which names the dataset, for attributes that the form
// cannot hold: non-finite numbers in JSON, strings that would be read back as timestamps in MessagePack.
std::string encode_json(const Metadata& metadata);
std::string encode_msgpack(const Metadata& metadata);

}  // namespace atompack::atlas_store
