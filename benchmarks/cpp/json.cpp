// Which reader of JSON for the metadata of stores, and for `_JSON` values of extended XYZ? docs/decisions/json.md
#include <nlohmann/json.hpp>

#include "formats/atlas_store/metadata/document.h"
#include "formats/atlas_store/metadata/metadata_decoder.h"
#include "formats/extxyz/number_list.h"
#include "serial/json/reader.h"
#include "simdjson_reader.h"
#include "turns.h"

namespace atompack::benchmarks {
namespace {

using atlas_store::Metadata;
using nlohmann::json;

// The store `tiny` of benchmarks/atlas.py. In a `mixed` store each dataset has shapes and attributes of its own, so
// that no schema repeats.
Metadata made_store(bool mixed) {
  constexpr uint32_t kDatasets = 20'000;
  Metadata metadata;
  for (uint32_t i = 0; i < kDatasets; ++i) {
    char name[16];
    std::snprintf(name, sizeof(name), "tiny_%06u", i);
    const uint32_t dataset = metadata.add_dataset(name);
    const uint64_t n = mixed ? 25 + i : 25;
    const atlas_store::Schema schema{{array_file::Type::float32, {}}, {n}, {n}, {"dim0"}, codec::Codec::zstd};
    for (const char* const variable : {"x", "y", "z"}) {
      metadata.add_array(dataset, {metadata.add_variable(variable), metadata.add_schema(schema)});
    }
    if (!mixed) continue;
    metadata.set_attribute(dataset, "latitude", 1e-3 * i - 10);
    metadata.set_attribute(dataset, "cycle", static_cast<int64_t>(i));
    metadata.set_attribute(dataset, "platform", std::string_view("profiling float \"A\""));
  }
  return metadata;
}

void check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

void compare_metadata(const std::string& job, const Metadata& metadata) {
  const std::string text = atlas_store::encode_json(metadata);
  const Bytes bytes = as_bytes(text);
  const auto with_simdjson = [&] { return atlas_store::MetadataDecoder<SimdjsonReader>(bytes).decode(); };
  check(atlas_store::encode_json(atlas_store::decode_json(bytes)) == text, "own reader");
  check(atlas_store::encode_json(with_simdjson()) == text, "simdjson");
  simdjson::dom::parser reused;
  compare(job, text.size(),
          {{"own reader, decoded", [&] { keep(atlas_store::decode_json(bytes)); }},
           {"simdjson On-Demand, decoded", [&] { keep(with_simdjson()); }},
           {"own reader, every value read and dropped",
            [&] {
              serial::JsonReader in(bytes);
              skip_value(in);
              in.finish();
            }},
           {"simdjson DOM, parsed only",
            [&] {
              simdjson::dom::parser parser;
              keep(parser.parse(text.data(), text.size()).value());
            }},
           {"simdjson DOM, parsed only, memory of the last time",
            [&] { keep(reused.parse(text.data(), text.size()).value()); }},
           {"nlohmann SAX, every value read and dropped", [&] { keep(json::accept(text)); }},
           {"nlohmann, parsed only", [&] { keep(json::parse(text)); }}});
}

std::string list_of(int n_rows, bool real) {
  std::string list = "[";
  for (int i = 0; i < n_rows; ++i) {
    list += i > 0 ? ", [" : "[";
    for (int j = 0; j < 3; ++j) list += (j > 0 ? ", " : "") + (real ? json(std::sin(3 * i + j)) : json(i - j)).dump();
    list += ']';
  }
  return list + ']';
}

template <typename Reader>
std::vector<double> numbers_in(Reader& in) {
  std::vector<double> numbers;
  for (auto rows = in.enter_list(); in.next_item(rows);) {
    for (auto row = in.enter_list(); in.next_item(row);) {
      std::visit([&](auto number) { numbers.push_back(static_cast<double>(number)); }, in.number());
    }
  }
  in.finish();
  return numbers;
}

void compare_lists(const std::string& job, const std::string& text) {
  extxyz::Array array;
  check(extxyz::parse_number_list(text, extxyz::ListStyle::json, array), "list");
  compare(
      job, text.size(),
      {{"reader of lists in extxyz", [&] { keep(extxyz::parse_number_list(text, extxyz::ListStyle::json, array)); }},
       {"serial/json",
        [&] {
          serial::JsonReader in(as_bytes(text));
          keep(numbers_in(in));
        }},
       {"simdjson On-Demand",
        [&] {
          SimdjsonReader in(as_bytes(text));
          keep(numbers_in(in));
        }},
       {"nlohmann, parsed only", [&] { keep(json::parse(text)); }}});
}

}  // namespace
}  // namespace atompack::benchmarks

int main() {
  using namespace atompack::benchmarks;
  compare_metadata("metadata, 20,000 datasets of 3 equal arrays", made_store(false));
  compare_metadata("metadata, 20,000 datasets, no schema repeats", made_store(true));
  compare_lists("_JSON list, (3, 3) reals", list_of(3, true));
  compare_lists("_JSON list, (1000, 3) reals", list_of(1000, true));
  compare_lists("_JSON list, (1000, 3) integers", list_of(1000, false));
}
