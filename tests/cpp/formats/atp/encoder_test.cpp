#include "formats/atp/encoder.h"

#include <gtest/gtest.h>

#include "formats/atp/atp_bytes.h"
#include "formats/atp/sample_columns.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using codec::Codec;
using test::ByteString;
using test::doubles;
using test::floats;
using test::integers;
using test::kAtom;
using test::kBuiltin;
using test::kMolecule;
using test::section;

constexpr auto kProperty = Scope::molecule_property;
constexpr auto kAtomProperty = Scope::atom_property;

// Two molecules, of two atoms and of one, with the positions and numbers of test::geometry().
class Two {
 public:
  explicit Two(std::vector<Column> fields) {
    columns = {floats(positions_, {3, 3}), integers(numbers_, {3}), ptr_, std::move(fields), std::nullopt};
  }

  std::string refusal(RecordRules rules = {}) const {
    return test::message_of<FieldError>([&] { Encoder(columns, Codec::none, rules); });
  }

  ByteString first_record() const {
    RecordRules rules;
    const Encoder encoder(columns, Codec::none, rules);
    std::vector<std::byte> record(encoder.record_bytes(0));
    encoder.encode(0, record.data());
    return ByteString().append(record);
  }

  Columns columns;

 private:
  std::vector<float> positions_{0, 0.5, 1, 1.5, 2, 2.5, 0, 0.5, 1};
  std::vector<int64_t> numbers_{1, 2, 1};
  std::vector<int64_t> ptr_{0, 2, 3};
};

Column stacked(Scope scope, std::string key, Value value) { return {scope, std::move(key), value, {}, nullptr}; }
Column listed(Scope scope, std::string key, std::vector<Value> each) {
  return {scope, std::move(key), std::nullopt, std::move(each), nullptr};
}

std::string hex(const ByteString& bytes) { return std::string(as_text(bytes.bytes())); }

const std::vector<double> kDoubles{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
const std::vector<float> kFloats{1, 2, 3, 4, 5, 6, 7, 8, 9};
const std::vector<int64_t> kIntegers{7, 8, 9};

TEST(Encoder, SectionsComeInTheOrderOfTheFormat) {
  const Two two({stacked(kProperty, "b", integers(kIntegers, {2})), stacked(kProperty, "a", doubles(kDoubles, {2})),
                 stacked(kAtomProperty, "z", doubles(kDoubles, {3})),
                 listed(Scope::builtin, "name", {test::text("one"), test::text("two")}),
                 stacked(Scope::builtin, "forces", floats(kFloats, {3, 3})),
                 stacked(Scope::builtin, "energy", doubles(kDoubles, {2})),
                 stacked(Scope::builtin, "charges", doubles(kDoubles, {3}))});
  const ByteString expected = test::record(
      2, {section(kBuiltin, "charges", 3, ByteString().put_all({1.0, 2.0})),
          section(kBuiltin, "energy", 0, ByteString().put(1.0)),
          section(kBuiltin, "forces", 4, ByteString().put_all({1.F, 2.F, 3.F, 4.F, 5.F, 6.F})),
          section(kBuiltin, "name", 2, ByteString("one")), section(kAtom, "z", 3, ByteString().put_all({1.0, 2.0})),
          section(kMolecule, "a", 0, ByteString().put(1.0)), section(kMolecule, "b", 1, ByteString().put<int64_t>(7))});
  EXPECT_EQ(hex(two.first_record()), hex(expected));
}

TEST(Encoder, NoneAndAbsentDiffer) {
  const bool present[] = {false, true};
  Column masked = stacked(kProperty, "masked", doubles(kDoubles, {2}));
  masked.present = present;
  const Two two(
      {masked, listed(kProperty, "none", {Value{}, Value{}}), listed(Scope::builtin, "name", {Value{}, Value{}})});
  EXPECT_EQ(hex(two.first_record()), hex(test::record(2, {section(kMolecule, "none", 13, {})})));
}

TEST(Encoder, RowsChooseAndOrder) {
  Two two({stacked(Scope::builtin, "energy", doubles(kDoubles, {2}))});
  const std::vector<int64_t> rows{1, 0, 1};
  two.columns.rows = rows;
  RecordRules rules;
  const Encoder encoder(two.columns, Codec::none, rules);
  ASSERT_EQ(encoder.size(), 3);
  EXPECT_EQ(encoder.n_atoms(0), 1U);
  EXPECT_EQ(encoder.n_atoms(1), 2U);
  std::vector<std::byte> record(encoder.record_bytes(2));
  encoder.encode(2, record.data());
  const ByteString expected = test::record(1, {section(kBuiltin, "energy", 0, ByteString().put(2.0))});
  EXPECT_EQ(as_text(record), as_text(expected.bytes()));
}

TEST(Encoder, RefusesRecordsOfFourGigabytes) {
  // Never looked at: the size alone is refused.
  const Value huge{
      ValueKind::numeric, DType::float64, {2, int64_t{1} << 28}, Bytes(static_cast<const std::byte*>(nullptr), 0)};
  EXPECT_EQ(Two({stacked(kProperty, "a", huge), stacked(kProperty, "b", huge)}).refusal(),
            "record: expected less than 4 GiB, got 4294967344 bytes (molecule 0)");
  RecordRules rules;
  const Two large({stacked(kProperty, "a", huge)});
  EXPECT_EQ(test::data_error([&] { Encoder(large.columns, Codec::lz4, rules); }),
            "lz4: expected at most 2113929216 bytes, got 2147483688 (molecule 0)");
}

}  // namespace
}  // namespace atompack::atp
