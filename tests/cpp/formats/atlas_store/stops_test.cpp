// A writer that dies, or is refused something, at any of its operations.
#include <gtest/gtest.h>

#include "formats/atlas_store/flush/intent.h"
#include "formats/atlas_store/scenario.h"
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

// What stands in the store before the first round and after each.
std::vector<ordered_json> states(const std::vector<Round>& rounds) {
  const test::TemporaryFolder folder(test::folder_in_memory());
  Writer writer(folder / "store", Mode::create, kTwoThreads);
  std::vector<ordered_json> states{state_of(folder / "store")};
  for (const Round& round : rounds) {
    for (const auto& action : round) action(writer);
    states.push_back(state_of(folder / "store"));
  }
  return states;
}

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
    const bool is_new = found == states_[finished + 1];
    n_new_ += is_new ? 1 : 0;
    ASSERT_TRUE(is_new || found == states_[finished]) << found.dump(1);
    if (!std::filesystem::is_empty(store)) {
      EXPECT_EQ(state_of(test::FakeStore::of(folder.path(), "store")), found);
    }
    finish(store, is_new ? finished + 1 : finished);
    EXPECT_EQ(state_of(store), states_.back());
    expect_tidy(store);
  }

  void finish(const std::string& store, size_t from) {
    Writer writer(store, Mode::append, kTwoThreads);
    EXPECT_EQ(state_of(store), states_[from]);
    EXPECT_FALSE(std::filesystem::exists(intent_path(store)));
    for (size_t i = from; i < rounds_.size(); ++i) {
      for (const auto& action : rounds_[i]) action(writer);
    }
  }

  const std::vector<Round> rounds_ = test::rounds();
  const std::vector<ordered_json> states_ = states(rounds_);
  bool stopped_ = true;
  size_t n_new_ = 0;
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
      ASSERT_EQ(state_of(store), states_[i + 1]) << i;
    }
    writer.reset();
    expect_tidy(store);
    if (refused >= files.n_operations()) break;
  }
}

}  // namespace
}  // namespace atompack::atlas_store
