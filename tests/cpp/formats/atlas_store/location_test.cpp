// ATLAS stores that are in a remote store.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "formats/array_file/gathered.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store.h"
#include "formats/atlas_store/store_state.h"
#include "io/fake_store.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

namespace fs = std::filesystem;
using test::FakeStore;
using test::GatheredRow;

std::vector<int64_t> all_datasets(const Store& store) {
  std::vector<int64_t> datasets(static_cast<size_t>(store.size()));
  std::iota(datasets.begin(), datasets.end(), 0);
  return datasets;
}

class StoreToLocate : public testing::TestWithParam<Form> {
 protected:
  // Datasets of variables t, u and v.
  void write() {
    Writer writer(folder_ / "store", Mode::create, options());
    for (int i = 0; i < 12; ++i) {
      const std::string dataset = cat("d", i);
      writer.create_dataset(dataset);
      for (const char* const name : {"t", "u", "v"}) {
        writer.define_array(dataset, test::numbers(name, 4));
        test::put(writer, dataset, name, 0, {i, i + 1, i + 2, i + 3});
      }
    }
    writer.flush();
    writer.compact();
  }
  static WriterOptions options() {
    return {.codec = codec::Codec::lz4, .form = GetParam(), .level = 3, .block_bytes = 64, .n_threads = 1};
  }
  io::Location place() const { return remote_->at("store"); }

  test::TemporaryFolder folder_;
  std::shared_ptr<FakeStore> remote_ = std::make_shared<FakeStore>(folder_.path());
};

TEST_P(StoreToLocate, TakesFewRequests) {
  write();
  const Store store(place());
  // The store is listed, its metadata opened and read, and a record looked for; each variable is listed; then the store
  // is listed again, and its metadata looked up.
  const test::Requests opening = remote_->requests();
  EXPECT_EQ(opening.lists, 1 + 3 + 1);
  EXPECT_EQ(opening.opens, 1 + 1);
  EXPECT_EQ(opening.reads, 1);
  EXPECT_EQ(opening.versions, 1);
  EXPECT_EQ(store.window(0), 1) << "not known yet";
  remote_->reset();
  const auto slice = store.slice(0, all_datasets(store), {});
  EXPECT_EQ(remote_->requests().all(), 2 + 2) << "its base and the end of it, and that the store did not change";
  EXPECT_GT(store.window(0), 256);
  remote_->reset();
  slice->announce();
  EXPECT_EQ(remote_->requests().reads, 3) << "four arrays in each block";
  const std::vector<GatheredRow> rows = test::gather(*slice, true);
  EXPECT_EQ(remote_->requests().all(), 3);
  const Store local(folder_ / "store");
  EXPECT_EQ(rows, test::gather(*local.slice(0, all_datasets(local), {}), true));
  remote_->reset();
  EXPECT_EQ(store.statistics(1).size(), 12U);
  EXPECT_EQ(remote_->requests().all(), 2 + 2);
}

TEST_P(StoreToLocate, VariablesAreListedTogether) {
  {
    Writer writer(folder_ / "store", Mode::create, options());
    writer.create_dataset("d");
    for (int i = 0; i < 64; ++i) writer.define_array("d", test::numbers(cat("variable", i), 4));
    writer.flush();
  }
  remote_->set_latency(std::chrono::milliseconds(20));
  const auto start = std::chrono::steady_clock::now();
  const Store store(place());
  EXPECT_EQ(store.n_variables(), 64U);
  const auto latencies = (std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(20);
  EXPECT_LT(latencies, 30) << "instead of 70";
}

TEST_P(StoreToLocate, ChangesAreNoticed) {
  write();
  const Store store(place());
  store.slice(0, all_datasets(store), {});
  {
    Writer writer(folder_ / "store", Mode::append, options());
    test::put(writer, "d0", "t", 0, {100});
    writer.set_attribute("d0", "k", int64_t{5});
    writer.flush();
  }
  const std::string stale = "mem://store: the store was written to since it was opened; refresh() opens its last flush";
  EXPECT_EQ(test::message_of<IoError>([&] { store.slice(1, all_datasets(store), {}); }), stale);
  EXPECT_EQ(test::message_of<IoError>([&] { const Store again(place(), store.version()); }), stale);
  const Store again(place());
  EXPECT_FALSE(again.version() == store.version());
  EXPECT_EQ(test::state_of(place()), test::state_of(folder_ / "store"));
}

// The first form that exists counts.
TEST_P(StoreToLocate, OtherFormsAreNoticed) {
  write();
  const Snapshot snapshot = read_snapshot(place());
  EXPECT_TRUE(is_current(place(), snapshot));
  if (GetParam() != Form::json) {
    std::ofstream(folder_ / "store/atlas.json") << "{}";
    EXPECT_FALSE(is_current(place(), snapshot));
  }
  std::ofstream(intent_path(folder_ / "store")) << "{}";
  EXPECT_FALSE(is_current(place(), snapshot));
}

TEST_P(StoreToLocate, MissingOnesAreNamed) {
  EXPECT_EQ(test::message_of<IoError>([&] { const Store store(place()); }), "mem://store: No such file or directory");
}

INSTANTIATE_TEST_SUITE_P(Each, StoreToLocate, testing::Values(Form::json, Form::msgpack_lz4));

}  // namespace
}  // namespace atompack::atlas_store
