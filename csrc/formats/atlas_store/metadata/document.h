// Metadata as a document in JSON or MessagePack (FORMAT.md, "Metadata").
#pragma once

#include <algorithm>
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

// A key of a map, its name in errors, and what reads its value.
template <typename Decode>
struct MapField {
  std::string_view key, name;
  Decode decode;
};
template <typename Decode>
MapField(std::string_view, std::string_view, Decode) -> MapField<Decode>;

// Reads the values of these keys and skips others. Returns which of the keys there are.
template <typename In, typename... Decode>
std::array<bool, sizeof...(Decode)> decode_map(In& in, std::string_view what, const MapField<Decode>&... fields) {
  expect(in, Token::map, what);
  std::array<bool, sizeof...(Decode)> seen{};
  std::string_view key;
  for (auto scope = in.enter_map(); in.next_key(scope, key);) {
    size_t place = 0;
    const auto take = [&](const auto& field) {
      bool& is_seen = seen[place++];
      if (key != field.key) return false;
      if (std::exchange(is_seen, true)) throw CorruptFileError(cat(field.name, ": duplicate key"), in.position());
      field.decode();
      return true;
    };
    if (!(take(fields) || ...)) skip_value(in);
  }
  return seen;
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
    std::string tag;
    Arguments arguments;
    const auto decode_tag = [&] {
      expect(in_, Token::text, "dtype");
      tag = in_.text();
    };
    const auto [has_type, has_arguments] =
        decode_map(in_, "dtype", MapField{"type", "dtype", decode_tag},
                   MapField{"args", "dtype arguments", [&] { arguments = decode_arguments(depth); }});
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
    arguments.given = true;
    decode_map(in_, "dtype arguments", MapField{"child", "child", [&] { arguments.child = decode(depth + 1); }},
               MapField{"size", "size", [&] { arguments.size = natural(in_, "size"); }});
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
  Schema schema;
  const auto seen =
      decode_map(in, "array", MapField{"dtype", "dtype", [&] { schema.dtype = DataTypeDecoder<In>(in).decode(); }},
                 MapField{"shape", "shape", [&] { schema.shape = decode_sizes(in, "shape"); }},
                 MapField{"chunk_shape", "chunk shape", [&] { schema.chunk_shape = decode_sizes(in, "chunk shape"); }},
                 MapField{"dimension_names", "dimension names",
                          [&] { schema.dimension_names = decode_texts(in, "dimension names"); }},
                 MapField{"codec", "codec", [&] { schema.codec = decode_codec(in); }});
  if (std::ranges::find(seen, false) != seen.end()) {
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
