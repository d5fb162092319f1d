#include "formats/atlas_store/metadata/document.h"

#include "base/error.h"
#include "formats/atlas_store/metadata/metadata_decoder.h"
#include "serial/json/reader.h"
#include "serial/json/writer.h"
#include "serial/msgpack/reader.h"
#include "serial/msgpack/writer.h"

namespace atompack::atlas_store {

Metadata decode_json(Bytes text) { return MetadataDecoder<serial::JsonReader>(text).decode(); }
Metadata decode_msgpack(Bytes bytes) { return MetadataDecoder<serial::MsgpackReader>(bytes).decode(); }

namespace {

template <typename Out>
class Encoder {
 public:
  explicit Encoder(const Metadata& metadata) : metadata_(metadata) {}

  std::string encode() {
    out_.map(metadata_.stamp.empty() ? 3 : 4);
    out_.key("version");
    out_.natural(1);
    if (!metadata_.stamp.empty()) {
      out_.key("stamp");
      out_.text(metadata_.stamp);
    }
    out_.key("codec");
    out_.text(spelling_of(kCodecs, metadata_.codec));
    out_.key("datasets");
    datasets();
    out_.end_map();
    return out_.take();
  }

 private:
  void datasets() {
    size_t n = 0;
    for (uint32_t i = 0; i < metadata_.n_numbers(); ++i) n += metadata_.exists(i) ? 1 : 0;
    out_.map(n);
    for (uint32_t i = 0; i < metadata_.n_numbers(); ++i) {
      if (metadata_.exists(i)) dataset(i);
    }
    out_.end_map();
  }

  void dataset(uint32_t number) {
    out_.key(metadata_.dataset_name(number));
    out_.map(2);
    out_.key("arrays");
    out_.map(metadata_.arrays(number).size());
    for (const Entry& entry : metadata_.arrays(number)) {
      out_.key(metadata_.variable_name(entry.variable));
      schema(metadata_.schema(entry.schema));
    }
    out_.end_map();
    out_.key("attributes");
    out_.map(metadata_.n_attributes(number));
    for (size_t i = 0; i < metadata_.n_attributes(number); ++i) attribute(number, metadata_.attribute(number, i));
    out_.end_map();
    out_.end_map();
  }

  void schema(const Schema& schema) {
    out_.map(5);
    out_.key("dtype");
    dtype(schema.dtype, 0);
    out_.key("shape");
    sizes(schema.shape);
    out_.key("chunk_shape");
    sizes(schema.chunk_shape);
    out_.key("dimension_names");
    out_.list(schema.dimension_names.size());
    for (const std::string& name : schema.dimension_names) {
      out_.item();
      out_.text(name);
    }
    out_.end_list();
    out_.key("codec");
    out_.text(spelling_of(kCodecs, schema.codec));
    out_.end_map();
  }

  // `depth`: nesting depth of its lists.
  void dtype(const DataType& dtype, size_t depth) {
    const bool is_list = depth < dtype.lists.size();
    out_.map(is_list ? 2 : 1);
    out_.key("type");
    if (!is_list) {
      out_.text(spelling_of(kTypes, dtype.element));
      return out_.end_map();
    }
    const std::optional<uint64_t> size = dtype.lists[depth];
    out_.text(size ? kFixedList : kList);
    out_.key("args");
    out_.map(size ? 2 : 1);
    out_.key("child");
    this->dtype(dtype, depth + 1);
    if (size) {
      out_.key("size");
      out_.natural(*size);
    }
    out_.end_map();
    out_.end_map();
  }

  void sizes(const std::vector<uint64_t>& sizes) {
    out_.list(sizes.size());
    for (const uint64_t size : sizes) {
      out_.item();
      out_.natural(size);
    }
    out_.end_list();
  }

  void attribute(uint32_t dataset, const Attribute& attribute) {
    out_.key(attribute.key);
    const auto add_name = [&](DataError& error) {
      error.at_field(cat(metadata_.dataset_name(dataset), '.', attribute.key));
    };
    with_context(add_name, [&] { std::visit([&](const auto& value) { this->value(value); }, attribute.value); });
  }

  void value(bool value) { out_.boolean(value); }
  void value(int64_t value) { out_.integer(value); }
  void value(double value) { out_.real(value); }
  void value(std::string_view text) { parse_timestamp(text) ? out_.string_like_timestamp(text) : out_.text(text); }
  void value(const TimestampValue& moment) {
    moment.text.empty() ? out_.text(format_timestamp(moment.at)) : out_.text(moment.text);
  }

  const Metadata& metadata_;
  Out out_;
};

}  // namespace

std::string encode_json(const Metadata& metadata) { return Encoder<serial::JsonWriter>(metadata).encode(); }
std::string encode_msgpack(const Metadata& metadata) { return Encoder<serial::MsgpackWriter>(metadata).encode(); }

}  // namespace atompack::atlas_store
