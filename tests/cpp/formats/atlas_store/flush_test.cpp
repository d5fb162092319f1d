#include "formats/atlas_store/flush.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fixtures.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/statistics.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store_state.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

using test::put;
using test::state_of;

Intent sample() { return {false, Fingerprint{3, "abc"}, {4, "def"}, {{"t", 2, "0123"}, {"odd \"name\"", 7, "4567"}}}; }

TEST(AtlasIntent, ComesBack) {
  const std::string file = encode_intent(sample());
  const Intent intent = decode_intent(as_bytes(file));
  EXPECT_EQ(encode_intent(intent), file);
  EXPECT_EQ(intent.layers.size(), 2U);
  EXPECT_EQ(intent.layers[1].variable, "odd \"name\"");
  EXPECT_EQ(intent.before, (Fingerprint{3, "abc"}));
}

TEST(AtlasIntent, OfARemoteStoreComesBack) {
  Intent given = sample();
  given.id = "one of many";
  given.stamp = "a stamp";
  given.renewed = {5, "ghi"};
  const std::string file = encode_intent(given);
  const Intent intent = decode_intent(as_bytes(file));
  EXPECT_EQ(encode_intent(intent), file);
  EXPECT_EQ(intent.id, "one of many");
  EXPECT_EQ(intent.stamp, "a stamp");
  EXPECT_EQ(intent.renewed, (Fingerprint{5, "ghi"}));
}

TEST(AtlasIntent, RenewedMetadataCountsLikeThatBefore) {
  const auto of = [](std::string_view text) {
    MetadataFile file;
    file.bytes.assign(as_bytes(text).begin(), as_bytes(text).end());
    return std::optional(file);
  };
  Intent intent = sample();
  intent.before = fingerprint_of(as_bytes("old"));
  intent.after = fingerprint_of(as_bytes("new"));
  EXPECT_EQ(outcome_of(intent, of("again")), Outcome::unknown);
  intent.renewed = fingerprint_of(as_bytes("again"));
  EXPECT_EQ(outcome_of(intent, of("again")), Outcome::rolled_back);
  EXPECT_EQ(outcome_of(intent, of("old")), Outcome::rolled_back);
  EXPECT_EQ(outcome_of(intent, of("new")), Outcome::kept);
  EXPECT_EQ(outcome_of(intent, std::nullopt), Outcome::unknown);
}

TEST(AtlasIntent, AnyDamageIsFound) {
  const std::string file = encode_intent(sample());
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_THROW(decode_intent(as_bytes(damaged)), CorruptFileError);
    EXPECT_THROW(decode_intent(as_bytes(file.substr(0, i))), CorruptFileError);
  }
}

// A store of two flushes, the second of which overwrote a value of the first, and a record beside it.
class AtlasRecord : public testing::Test {
 protected:
  AtlasRecord() {
    Writer writer(store(), Mode::create);
    writer.create_dataset("d");
    writer.define_array("d", test::numbers("t", 2));
    put(writer, "d", "t", 0, {1, 2});
    writer.flush();
    put(writer, "d", "t", 0, {10});
    writer.flush();
  }

  std::string store() const { return folder_ / "store"; }
  std::string layer(int number) const { return cat(store(), "/t/data.", number, ".af"); }
  Fingerprint metadata() const { return fingerprint_of(read_metadata_file(store())->bytes); }
  std::string digest() const { return array_file::layer_digest(*io::open_file(layer(2))); }
  void leave(const Intent& intent) { std::ofstream(intent_path(store())) << encode_intent(intent); }
  int first_value() const { return state_of(store())["d"]["arrays"]["t"][0].get<int>(); }
  // What the first value is then, and after the store was opened for writing.
  void expect(int value) {
    EXPECT_EQ(first_value(), value);
    {
      const Writer writer(store(), Mode::append);
    }
    EXPECT_EQ(first_value(), value);
    EXPECT_FALSE(std::filesystem::exists(intent_path(store())));
  }

  const Fingerprint other_{1, "x"};
  test::TemporaryFolder folder_;
};

TEST_F(AtlasRecord, OfWhatDidNotGetToItsEndRollsBack) {
  leave({false, metadata(), other_, {{"t", 2, digest()}}});
  expect(1);
  EXPECT_FALSE(std::filesystem::exists(layer(2)));
}

TEST_F(AtlasRecord, OfValuesAloneRollsBackUntilItSaysThatItIsComplete) {
  leave({false, metadata(), metadata(), {{"t", 2, digest()}}});
  EXPECT_EQ(first_value(), 1);
  leave({true, metadata(), metadata(), {{"t", 2, digest()}}});
  expect(10);
  const auto statistics = array_file::read_statistics(store() + "/t/data.af");
  EXPECT_EQ(std::get<int64_t>(*statistics.at("d").max), 10);
}

TEST_F(AtlasRecord, OfWhatIsCompleteChangesNothing) {
  leave({false, other_, metadata(), {{"t", 2, digest()}}});
  EXPECT_EQ(read_snapshot(store()).variables[0].statistics_path, "");
  expect(10);
}

TEST_F(AtlasRecord, IsVoidOnceSomebodyElseHasWritten) {
  leave({false, other_, other_, {{"t", 2, digest()}}});
  expect(10);
  leave({false, metadata(), other_, {{"t", 2, "another digest"}}});
  expect(10);
  leave({false, metadata(), other_, {{"t", 1, digest()}}});
  expect(10);
  std::filesystem::copy_file(layer(1), layer(3));
  leave({false, metadata(), other_, {{"t", 2, digest()}}});
  expect(1);  // layer 3 has the value of layer 1
  EXPECT_TRUE(std::filesystem::exists(layer(2)));
}

TEST_F(AtlasRecord, ThatIsDamagedIsPassedOver) {
  std::ofstream(intent_path(store())) << "{}";
  EXPECT_EQ(read_snapshot(store()).warnings,
            std::vector<std::string>{intent_path(store()) +
                                     ": intent record: expected its checksum at the end, got other bytes; it is "
                                     "passed over"});
  expect(10);
}

TEST_F(AtlasRecord, MayNameWhatWasNeverPublished) {
  leave({false, metadata(), other_, {{"t", 3, "x"}, {"absent", 1, "y"}}});
  expect(10);
}

TEST(AtlasSnapshot, ReadsWhatTheOriginalLost) {
  const test::TemporaryFolder folder;
  {
    Writer writer(folder / "store", Mode::create);
    writer.create_dataset("d");
    writer.define_array("d", test::numbers("t", 1));
    put(writer, "d", "t", 0, {5});
    writer.flush();
  }
  const std::string store = folder / "store";
  std::filesystem::rename(store + "/t", store + "/%C3%A9");
  std::filesystem::create_directory(store + "/%25C3%25A9");
  std::filesystem::rename(store + "/%C3%A9/data.1.af", store + "/%25C3%25A9/data.1.af");
  std::string metadata = test::contents(store + "/atlas.json");
  metadata.replace(metadata.find("\"t\""), 3, "\"\xC3\xA9\"");
  std::ofstream(store + "/atlas.json") << metadata;
  EXPECT_EQ(state_of(store)["d"]["arrays"]["\xC3\xA9"].dump(), "[5]");
  Writer writer(store, Mode::append);
  EXPECT_NE(test::message_of<FieldError>([&] { put(writer, "d", "\xC3\xA9", 0, {1}); }).find("expected one whose"),
            std::string::npos);
}

TEST(AtlasSnapshot, OfAFolderWithoutMetadataIsEmpty) {
  const test::TemporaryFolder folder;
  const Snapshot snapshot = read_snapshot(folder.path());
  EXPECT_FALSE(snapshot.form);
  EXPECT_EQ(snapshot.metadata.n_numbers(), 0U);
  std::ofstream(folder / "atlas.json") << R"({"version":1,"datasets":{}})";
  EXPECT_FALSE(is_current(folder.path(), snapshot));
  EXPECT_THROW(read_snapshot(folder / "absent"), IoError);
}

}  // namespace
}  // namespace atompack::atlas_store
