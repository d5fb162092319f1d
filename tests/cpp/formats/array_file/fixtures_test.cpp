// Every value of the stores that the library wrote, and its verdict on damaged ones.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "fixtures.h"
#include "formats/array_file/npz.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"

namespace atompack::array_file {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kAtlas = test::atlas_fixtures();

std::string raw_values(const Reader& reader, const Array& array, const Box& box) {
  std::string out(box.n_elements() * item_bytes(array.type), 'x');
  DecodedBlock last;
  reader.read(array, box, std::as_writable_bytes(std::span(out)), last);
  return out;
}

std::vector<std::string> strings(const Reader& reader, const Array& array, const Box& box) {
  std::vector<std::string> out(box.n_elements(), "x");
  DecodedBlock last;
  reader.read(array, box, out, last);
  return out;
}

json shown(const std::optional<Fill>& fill) {
  if (!fill) return nullptr;
  const auto show = []<typename T>(const T& value) -> json {
    if constexpr (std::is_same_v<T, Timestamp>) {
      return value.nanoseconds;
    } else if constexpr (std::is_same_v<T, double>) {
      if (std::isnan(value)) return {{"float", "nan"}};
      if (std::isinf(value)) return {{"float", value > 0 ? "inf" : "-inf"}};
      return value;
    } else {
      return value;
    }
  };
  return std::visit(show, *fill);
}

std::string store_name(Type type) {
  return type == Type::timestamp ? "timestamp_nanoseconds" : std::string(name_of(type));
}

// A slice of values that were read whole.
template <typename Values>
Values sliced(const Values& whole, const Array& array, const Box& box, size_t item) {
  Values part;
  std::vector<uint64_t> at = box.start;
  for (uint64_t n = box.n_elements(); n > 0; --n) {
    uint64_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) index = index * array.shape[i] + at[i];
    part.insert(part.end(), whole.begin() + static_cast<long>(index * item),
                whole.begin() + static_cast<long>((index + 1) * item));
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < box.start[i] + box.count[i]) break;
      at[i] = box.start[i];
    }
  }
  return part;
}

Box random_box(const Array& array, std::minstd_rand& random) {
  Box box = array.whole();
  for (size_t i = 0; i < box.start.size(); ++i) {
    box.start[i] = random() % (array.shape[i] + 1);
    box.count[i] = random() % (array.shape[i] - box.start[i] + 1);
  }
  return box;
}

class FixtureStore : public testing::TestWithParam<std::string> {
 protected:
  FixtureStore() : expected_(json::parse(test::contents((kAtlas / (GetParam() + ".expected.json")).string()))) {
    const fs::path npz = kAtlas / (GetParam() + ".expected.npz");
    if (fs::exists(npz)) values_ = test::read_npz(npz.string());
  }

  void check(const Reader& reader, const std::string& dataset, const json& expected) {
    const Array array = reader.array(dataset);
    EXPECT_EQ(store_name(array.type), expected.at("dtype"));
    EXPECT_EQ(json(array.shape), expected.at("shape"));
    EXPECT_EQ(json(array.chunk_shape), expected.at("chunk_shape"));
    EXPECT_EQ(shown(array.fill), expected.at("fill"));
    EXPECT_TRUE(array.attributes.empty());
    if (expected.contains("strings")) {
      check_strings(reader, array, expected.at("strings"));
    } else {
      check_numbers(reader, array, values_.at(expected.at("key")));
    }
  }

  void check_numbers(const Reader& reader, const Array& array, const std::string& values) {
    const std::string whole = raw_values(reader, array, array.whole());
    EXPECT_TRUE(whole == values);
    for (int i = 0; i < 5; ++i) {
      const Box box = random_box(array, random_);
      EXPECT_TRUE(raw_values(reader, array, box) == sliced(whole, array, box, item_bytes(array.type)));
    }
    ++n_arrays_;
  }

  void check_strings(const Reader& reader, const Array& array, const json& values) {
    const std::vector<std::string> whole = strings(reader, array, array.whole());
    EXPECT_EQ(json(whole), values);
    for (int i = 0; i < 5; ++i) {
      const Box box = random_box(array, random_);
      EXPECT_EQ(strings(reader, array, box), sliced(whole, array, box, 1));
    }
    ++n_arrays_;
  }

  json expected_;
  std::map<std::string, std::string> values_;
  std::minstd_rand random_{1};
  int n_arrays_ = 0;
};

json shown(const std::optional<Extreme>& extreme) {
  if (!extreme) return nullptr;
  const auto show = []<typename T>(const T& value) -> json {
    if constexpr (std::is_same_v<T, std::string>) {
      const Bytes bytes = as_bytes(value);
      json codes = json::array();
      for (const std::byte byte : bytes) codes.push_back(static_cast<int>(byte));
      return codes;
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      return value.nanoseconds;
    } else if constexpr (std::is_same_v<T, double>) {
      if (std::isnan(value)) return {{"float", "nan"}};
      if (std::isinf(value)) return {{"float", value > 0 ? "inf" : "-inf"}};
      return value;
    } else {
      return value;
    }
  };
  return std::visit(show, *extreme);
}

TEST_P(FixtureStore, EveryStatisticIsRead) {
  for (const std::string folder : expected_.at("arrays_order")) {
    const Statistics statistics = read_statistics((kAtlas / GetParam() / folder / "data.af").string());
    for (const auto& [dataset, content] : expected_.at("datasets").items()) {
      if (!content.at("arrays").contains(folder)) continue;
      SCOPED_TRACE(folder + " of " + dataset);
      const json& expected = content.at("arrays").at(folder).at("stats");
      const auto found = statistics.find(dataset);
      ASSERT_EQ(found == statistics.end(), expected.is_null());
      if (found == statistics.end()) continue;
      EXPECT_EQ(found->second.n_rows, expected.at("row_count"));
      EXPECT_EQ(found->second.n_null, expected.at("null_count"));
      EXPECT_EQ(shown(found->second.min), expected.at("min"));
      EXPECT_EQ(shown(found->second.max), expected.at("max"));
    }
  }
}

TEST_P(FixtureStore, EveryValueIsRead) {
  int listed = 0;
  for (const std::string folder : expected_.at("arrays_order")) {
    SCOPED_TRACE(folder);
    const Reader reader((kAtlas / GetParam() / folder / "data.af").string());
    std::set<std::string> datasets;
    for (const auto& [dataset, content] : expected_.at("datasets").items()) {
      if (!content.at("arrays").contains(folder)) continue;
      SCOPED_TRACE(dataset);
      datasets.insert(dataset);
      check(reader, dataset, content.at("arrays").at(folder));
      ++listed;
    }
    const std::vector<std::string> names = reader.names();
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), datasets);
    EXPECT_EQ(names.size(), datasets.size());
  }
  EXPECT_EQ(n_arrays_, listed);
}

std::vector<std::string> stores() {
  std::vector<std::string> names;
  constexpr std::string_view kEnd = ".expected.json";
  for (const auto& entry : fs::directory_iterator(kAtlas)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kEnd)) names.push_back(name.substr(0, name.size() - kEnd.size()));
  }
  std::ranges::sort(names);
  return names;
}

TEST(ArrayFormatFixtures, AreThere) { EXPECT_GE(stores().size(), 18U) << kAtlas; }

INSTANTIATE_TEST_SUITE_P(All, FixtureStore, testing::ValuesIn(stores()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace atompack::array_file
