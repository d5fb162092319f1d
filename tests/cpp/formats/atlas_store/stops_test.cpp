// A writer that dies, or is refused something, at any of its operations.
#include <gtest/gtest.h>

#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store.h"
#include "formats/atlas_store/store_state.h"
#include "formats/atlas_store/writer.h"
#include "io/fake_store.h"
#include "io/faulty_file_system.h"
#include "io/temporary_folder.h"

namespace atompack::atlas_store {
namespace {

using nlohmann::ordered_json;
using test::FaultyFileSystem;
using test::Round;
using test::state_of;

constexpr WriterOptions kTwoThreads{
    .codec = codec::Codec::lz4, .form = Form::json, .level = 3, .block_bytes = 64, .n_threads = 2};

// Statistics of arrays that hold values; those of others only a compaction computes.
std::map<std::string, std::vector<std::byte>> statistics_of(const std::string& path) {
  const Store store(path);
  std::map<std::string, std::vector<std::byte>> found;
  for (uint32_t variable = 0; variable < store.metadata().n_variables(); ++variable) {
    for (const auto& [name, statistics] : store.statistics(variable)) {
      const std::optional<uint32_t> dataset = store.metadata().find_dataset(name);
      const bool exists = dataset && store.metadata().schema_number(*dataset, variable);
      if (!exists || statistics.n_null == statistics.n_rows) continue;
      found[cat(name, '/', store.metadata().variable_name(variable))] =
          array_file::encode_statistics({{name, statistics}});
    }
  }
  return found;
}

// The store before the first round and after each.
struct Expected {
  std::vector<ordered_json> states;
  std::vector<std::map<std::string, std::vector<std::byte>>> statistics;

  explicit Expected(const std::vector<Round>& rounds) {
    const test::TemporaryFolder folder(test::folder_in_memory());
    Writer writer(folder / "store", Mode::create, kTwoThreads);
    add(folder / "store");
    for (const Round& round : rounds) {
      for (const auto& action : round) action(writer);
      add(folder / "store");
    }
  }
  void add(const std::string& store) {
    states.push_back(state_of(store));
    statistics.push_back(statistics_of(store));
  }
};

// The number of rounds that were finished before the stop.
size_t run_until_stopped(const std::string& store, const std::vector<Round>& rounds, FaultyFileSystem& files) {
  size_t finished = 0;
  try {
    Writer writer(store, Mode::create, kTwoThreads, files);
    for (const Round& round : rounds) {
      for (const auto& action : round) action(writer);
      ++finished;
    }
  } catch (const test::Stopped&) {
  }
  return finished;
}

void expect_tidy(const std::string& store) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << entry.path();
  }
}

class AtlasStops : public testing::Test {
 protected:
  // Looks at what is left, opens it for writing and does the rest.
  void check_stop(size_t stop_at, size_t torn_bytes) {
    const test::TemporaryFolder folder(test::folder_in_memory());
    const std::string store = folder / "store";
    FaultyFileSystem files;
    files.stop_at = stop_at;
    files.torn_bytes = torn_bytes;
    const size_t finished = run_until_stopped(store, rounds_, files);
    if (finished == rounds_.size()) {
      stopped_ = false;
      return;
    }
    if (!std::filesystem::exists(store)) return;
    const ordered_json found = state_of(store);
    const bool is_new = found == expected_.states[finished + 1];
    n_new_ += is_new ? 1 : 0;
    ASSERT_TRUE(is_new || found == expected_.states[finished]) << found.dump(1);
    if (!std::filesystem::is_empty(store)) {
      EXPECT_EQ(state_of(test::FakeStore::of(folder.path(), "store")), found);
    }
    finish(store, is_new ? finished + 1 : finished);
    EXPECT_EQ(state_of(store), expected_.states.back());
    EXPECT_EQ(statistics_of(store), expected_.statistics.back());
    expect_tidy(store);
  }

  // The first writer that opens the store dies, too.
  void finish(const std::string& store, size_t from) {
    FaultyFileSystem files;
    files.stop_at = n_finished_++ % 7;
    try {
      const Writer writer(store, Mode::append, kTwoThreads, files);
    } catch (const test::Stopped&) {
    }
    Writer writer(store, Mode::append, kTwoThreads);
    EXPECT_EQ(state_of(store), expected_.states[from]);
    EXPECT_EQ(statistics_of(store), expected_.statistics[from]);
    EXPECT_FALSE(std::filesystem::exists(intent_path(store)));
    for (size_t i = from; i < rounds_.size(); ++i) {
      for (const auto& action : rounds_[i]) action(writer);
    }
  }

  const std::vector<Round> rounds_ = test::rounds();
  const Expected expected_{rounds_};
  bool stopped_ = true;
  size_t n_new_ = 0, n_finished_ = 0;
};

TEST_F(AtlasStops, LeaveTheLastFlushOrTheNewOneWhole) {
  size_t stop = 0;
  for (; stopped_ && !HasFatalFailure(); ++stop) {
    SCOPED_TRACE(stop);
    check_stop(stop, stop % 2 == 0 ? 0 : 9);
  }
  EXPECT_GT(stop, 100U);
  EXPECT_GT(n_new_, 10U);
}

// Makes the call again where the system refused something.
template <typename Action>
void insist(const Action& action) {
  try {
    action();
  } catch (const IoError&) {
    action();
  }
}

TEST_F(AtlasStops, ARefusedOperationCanBeMadeAgain) {
  for (size_t refused = 0;; ++refused) {
    SCOPED_TRACE(refused);
    const test::TemporaryFolder folder(test::folder_in_memory());
    const std::string store = folder / "store";
    FaultyFileSystem files;
    files.refuse_at = refused;
    std::unique_ptr<Writer> writer;
    insist([&] { writer = std::make_unique<Writer>(store, Mode::append, kTwoThreads, files); });
    for (size_t i = 0; i < rounds_.size(); ++i) {
      for (const auto& action : rounds_[i]) insist([&] { action(*writer); });
      ASSERT_EQ(state_of(store), expected_.states[i + 1]) << i;
    }
    writer.reset();
    expect_tidy(store);
    if (refused >= files.n_operations()) break;
  }
}

}  // namespace
}  // namespace atompack::atlas_store
