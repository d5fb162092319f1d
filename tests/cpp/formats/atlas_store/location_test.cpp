// ATLAS stores that are in a remote store.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "fixtures.h"
#include "formats/array_file/gathered.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store.h"
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

// Everything that a store shows, and its errors and warnings with each mention of its place replaced.
struct Everything {
  std::vector<std::string> names, messages;
  std::vector<GatheredRow> rows;
  size_t n_statistics = 0;
  bool operator==(const Everything&) const = default;
};

Everything everything_in(const io::Location& place) {
  Everything found;
  const auto say = [&](std::string text) {
    if (const size_t at = text.find(place.path()); at != std::string::npos) text.replace(at, place.path().size(), "AT");
    found.messages.push_back(std::move(text));
  };
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const std::exception& error) {
      say(error.what());
    }
  };
  attempt([&] {
    const auto store = std::make_shared<const Store>(place);
    for (const std::string& warning : store->warnings()) say(warning);
    Verification verification(store);
    for (const int64_t dataset : all_datasets(*store)) found.names.emplace_back(store->dataset_name(dataset));
    for (uint32_t variable = 0; variable < store->n_variables(); ++variable) {
      found.names.emplace_back(store->variable_name(variable));
      attempt([&] { found.n_statistics += store->statistics(variable).size(); });
      for (const int64_t dataset : all_datasets(*store)) {
        attempt([&] {
          const auto rows = test::gather(*store->slice(variable, std::vector{dataset}, {}), true);
          found.rows.insert(found.rows.end(), rows.begin(), rows.end());
        });
        attempt([&] { verification.check(variable, static_cast<uint32_t>(dataset)); });
      }
    }
  });
  return found;
}

void compare(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() || fs::is_empty(entry.path())) continue;
    const std::string name = entry.path().filename().string();
    const Everything local = everything_in(entry.path().string());
    const Everything remote = everything_in(FakeStore::of(folder.string(), name));
    EXPECT_EQ(local.messages, remote.messages) << name;
    EXPECT_EQ(local, remote) << name;
  }
}

TEST(RemoteAtlasStores, AreReadLikeLocalOnes) { compare(test::atlas_fixtures()); }

TEST(RemoteAtlasStores, DamagedOnesHaveTheSameErrors) { compare(test::atlas_fixtures() / "reject"); }

// All sidecars of the fixtures are numbered without gaps.
TEST(RemoteAtlasStores, AreReadWithoutListings) {
  const fs::path folder = test::atlas_fixtures();
  int n_stores = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_store = fs::exists(entry.path() / "atlas.json") || fs::exists(entry.path() / "atlas.msgpack.lz4");
    if (!is_store) continue;
    const auto remote = std::make_shared<FakeStore>(folder.string());
    remote->forbid_listing();
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(everything_in(entry.path().string()), everything_in(remote->at(name))) << name;
    ++n_stores;
  }
  EXPECT_GT(n_stores, 3);
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
  EXPECT_EQ(everything_in(place()), everything_in(folder_ / "store"));
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
