#include <gtest/gtest.h>

#include <vector>

#include "serial/pickle/run.h"

namespace atompack::pickle {
namespace {

using namespace std::string_literals;
using test::global;
using test::run;
using test::str;
using test::u64;

// The parts of a storage stream of two float32; tests put others in their place.
struct Stream {
  std::string magic = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  std::string protocol = "\x80\2M\xe9\3.";
  std::string little = "\x88";
  std::string storage_class = "ctorch\nFloatStorage\n";
  std::string count = "K\2", view = "N";
  std::string data = u64(2) + "\0\0\x80\x3f\0\0\0\x40"s;

  std::string bytes() const {
    const std::string system = "\x80\2}(X\x0d\0\0\0little_endian"s + little + "u.";
    const std::string id =
        "\x80\2(X\7\0\0\0storage"s + storage_class + "X\1\0\0\0007X\3\0\0\0cpu"s + count + view + "tQ.";
    return magic + protocol + system + id + "\x80\2]X\1\0\0\0007a."s + data;
  }
  std::string storage() const {
    const std::string blob = bytes();
    return global("torch.storage", "_load_from_bytes") + "B" + u64(blob.size()).substr(0, 4) + blob + "\x85R";
  }
};

const std::string kHooks = global("collections", "OrderedDict") + ")R";

std::string tensor(const std::string& arguments, const Stream& stream = {}) {
  return run(global("torch._utils", "_rebuild_tensor_v2") + "(" + stream.storage() + arguments + "tR.");
}

TEST(PickleTorch, Tensors) {
  EXPECT_EQ(tensor("K\0K\2\x85K\1\x85\x89"s + kHooks), "tensor(<f4 2 0000803f00000040)");
  EXPECT_EQ(tensor("K\1))\x88" + kHooks), "tensor(<f4  grad 00000040)");
  EXPECT_EQ(tensor("K\0K\1K\2\x86K\1K\1\x86\x89"s + kHooks + "}"), "tensor(<f4 1x2 0000803f00000040)");
  EXPECT_EQ(tensor("K\1K\3\x85K\0\x85\x89"s + kHooks), "tensor(<f4 3 000000400000004000000040)") << "stride 0";
  EXPECT_EQ(tensor("K\0K\2K\1\x86K\1K\1\x86\x89"s + kHooks), "tensor(<f4 2x1 0000803f00000040)");
  EXPECT_EQ(tensor("K\2K\0\x85K\1\x85\x89"s + kHooks), "tensor(<f4 0 )");
}

TEST(PickleTorch, ElementTypes) {
  const auto one = [](std::string name, const std::string& data) {
    Stream stream;
    stream.storage_class = "ctorch\n" + name + "Storage\n";
    stream.count = "K\1";
    stream.data = u64(1) + data;
    return tensor("K\0))\x89"s + kHooks, stream);
  };
  EXPECT_EQ(one("Half", "ab"), "tensor(<f2  6162)");
  EXPECT_EQ(one("BFloat16", "ab"), "tensor(bfloat16  6162)");
  EXPECT_EQ(one("Bool", "\2"), "tensor(|b1  01)");
  EXPECT_EQ(one("Long", "abcdefgh"), "tensor(<i8  6162636465666768)");
  EXPECT_EQ(one("ComplexFloat", "abcdefgh"), "tensor(<c8  6162636465666768)");
  EXPECT_TRUE(one("Float", "abc").starts_with("corrupt: "));
  EXPECT_TRUE(one("Float", "abcde").starts_with("corrupt: "));
  EXPECT_TRUE(one("Quantized", "abcd").starts_with("unsafe: "));
}

TEST(PickleTorch, ViewsStayInsideTheirStorage) {
  EXPECT_TRUE(
      tensor("K\1K\2\x85K\1\x85\x89" + kHooks).starts_with("corrupt: pickle: tensor: expected elements inside"));
  EXPECT_TRUE(tensor("K\0K\2\x85K\2\x85\x89"s + kHooks).starts_with("corrupt: "));
  EXPECT_TRUE(tensor("K\3K\0\x85K\1\x85\x89"s + kHooks).starts_with("corrupt: ")) << "empty, and outside";
  EXPECT_TRUE(tensor("J\xff\xff\xff\xff))\x89" + kHooks).starts_with("corrupt: "));
  EXPECT_TRUE(tensor("K\0K\1\x85J\xff\xff\xff\xff\x85\x89"s + kHooks).starts_with("corrupt: "));
  EXPECT_TRUE(tensor("K\0K\1\x85)\x89"s + kHooks).starts_with("corrupt: "));
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_TRUE(tensor("K\0"s + huge + "\x85" + huge + "\x85\x89" + kHooks).starts_with("corrupt: "));
  EXPECT_TRUE(tensor("K\0"s + huge + "\x85K\0\x85\x89"s + kHooks).starts_with("corrupt: ")) << "bytes overflow";
  EXPECT_EQ(tensor("K\0J\0\0\0\x7f\x85K\0\x85\x89"s + kHooks),
            "unsafe: pickle: expected at most 1073741824 bytes, got more");
}

TEST(PickleTorch, NothingElseComesWithATensor) {
  EXPECT_TRUE(tensor("K\0))\x89"s + "N").starts_with("unsafe: ")) << "hooks";
  EXPECT_TRUE(tensor("K\0))\x89"s + "}").starts_with("unsafe: ")) << "hooks in a dict";
  EXPECT_TRUE(tensor("K\0))\x89"s + kHooks + "}" + str("conj") + "\x88s").starts_with("unsafe: ")) << "metadata";
  EXPECT_TRUE(tensor("K\0))K\0"s + kHooks).starts_with("corrupt: "));
  EXPECT_EQ(run(Stream().storage() + "."), "unsafe: pickle: expected values, got a torch storage");
}

TEST(PickleTorch, StreamsThatAreNone) {
  const auto outcome = [](const Stream& stream) { return run(stream.storage() + "."); };
  EXPECT_TRUE(outcome({.magic = "\x80\2K\1."}).starts_with("corrupt: "));
  EXPECT_TRUE(outcome({.protocol = "\x80\2M\xe8\3."}).starts_with("unsupported: "));
  EXPECT_TRUE(outcome({.little = "\x89"}).starts_with("unsupported: ")) << "big-endian";
  EXPECT_TRUE(outcome({.little = "N"}).starts_with("corrupt: "));
  EXPECT_TRUE(outcome({.count = "K\1"}).starts_with("corrupt: "));
  EXPECT_TRUE(outcome({.view = "K\1"}).starts_with("unsafe: "));
  EXPECT_TRUE(outcome({.data = u64(2) + "abc"}).starts_with("corrupt: "));
  EXPECT_TRUE(outcome({.data = u64(uint64_t{1} << 63)}).starts_with("corrupt: "));
}

// What is allowed outside a stream is not allowed in it, and the other way round.
TEST(PickleTorch, StreamsHaveRulesOfTheirOwn) {
  const auto outcome = [](const Stream& stream) { return run(stream.storage() + "."); };
  Stream evil;
  evil.magic = "\x80\2cos\nsystem\nX\1\0\0\0a\x85R."s;
  EXPECT_EQ(outcome(evil), "unsafe: pickle: expected a global of plain data, got 'os.system' (offset 43)");
  for (const char* name : {"cnumpy\ndtype\n", "ctorch.storage\n_load_from_bytes\n", "ccollections\nOrderedDict\n"}) {
    evil.magic = cat("\x80\2", name, ")R.");
    EXPECT_TRUE(outcome(evil).starts_with("unsafe: ")) << name;
  }
  EXPECT_TRUE(run("ctorch\nFloatStorage\n.").starts_with("unsafe: "));
}

TEST(PickleTorch, CutAnywhereIsAnError) {
  const std::string whole = Stream().bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string cut =
        global("torch.storage", "_load_from_bytes") + "C" + static_cast<char>(n) + whole.substr(0, n) + "\x85R.";
    ASSERT_LT(whole.size(), 256u);
    EXPECT_TRUE(run(cut).starts_with("corrupt: ")) << n << run(cut);
  }
}

}  // namespace
}  // namespace atompack::pickle
