#include "io/memory_store.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "message_of.h"

namespace atompack::io {
namespace {

MemoryStore store_of(const std::vector<std::string>& names, size_t size) {
  std::map<std::string, OwnedBytes> files;
  for (const std::string& name : names) {
    const auto bytes = std::make_shared<std::vector<std::byte>>(size);
    for (size_t i = 0; i < size; ++i) (*bytes)[i] = std::byte(i % 251);
    files[name] = {Bytes(*bytes), bytes};
  }
  return MemoryStore(std::move(files));
}

TEST(MemoryStore, ReadsEndAtTheEnd) {
  const MemoryStore store = store_of({"a"}, 10);
  const auto file = store.open("a");
  std::array<std::byte, 8> into{};
  EXPECT_EQ(file->read_at(0, into), 8U);
  EXPECT_EQ(file->read_at(6, into), 4U);
  EXPECT_EQ(into[0], std::byte{6});
  EXPECT_EQ(file->read_at(10, into), 0U);
  EXPECT_EQ(file->read_at(~uint64_t{0}, into), 0U);
  const std::string message = test::message_of<CorruptFileError>([&] { file->bytes(11, Access::automatic, false); });
  EXPECT_EQ(message, "a: the file shrank while it was open: expected 11 bytes, got 10");
}

TEST(MemoryStore, ListsFolders) {
  const MemoryStore store = store_of({"b/c/d", "b/a", "b.c", "b0", "a"}, 1);
  EXPECT_EQ(store.names_in("."), (std::vector<std::string>{"a", "b", "b.c", "b0"}));
  EXPECT_EQ(store.names_in("b"), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(store.names_in("b/c"), std::vector<std::string>{"d"});
}

TEST(MemoryStore, NamesWhatIsMissing) {
  const MemoryStore store = store_of({"b/a"}, 1);
  EXPECT_EQ(store.version_of("b"), std::nullopt);
  for (const char* name : {"a", "b", "b/", ""}) {
    EXPECT_EQ(test::message_of<IoError>([&] { store.open(name); }), cat(name, ": No such file or directory"));
  }
  EXPECT_EQ(test::message_of<IoError>([&] { store.names_in("a"); }), "a: No such file or directory");
}

}  // namespace
}  // namespace atompack::io
