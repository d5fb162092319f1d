#include "collate/example_batcher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "base/bytes.h"
#include "collate/expect_batch.h"
#include "serial/pickle/machine.h"
#include "serial/pickle/numpy_calls.h"
#include "serial/pickle/writer.h"

namespace atompack::collate {
namespace {

using plan::ExampleNode;

// A dict of one array, one number and one text.
struct Example {
  std::vector<int64_t> shape;
  int64_t label;
  std::string name;

  std::vector<double> values() const {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    std::vector<double> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(label) + static_cast<double>(i) / 8;
    return values;
  }

  std::vector<std::byte> pickled() const {
    std::vector<std::byte> bytes;
    pickle::Writer out(bytes);
    const std::vector<double> numbers = values();
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
    out.begin_dict();
    out.key("x");
    out.array(pickle::view_of({}, element_of(DType::float64), shape, strides, numbers.data()));
    out.key("label");
    out.integer(label);
    out.key("name");
    out.text(name);
    out.end_dict();
    out.finish();
    return bytes;
  }
};

class ExamplesInMemory final : public ExampleSource {
 public:
  explicit ExamplesInMemory(std::vector<Example> examples) {
    for (const Example& example : examples) pickles_.push_back(example.pickled());
  }

  int64_t size() const override { return std::ssize(pickles_); }
  Examples read(std::span<const int64_t> indices) const override {
    Examples examples;
    for (const int64_t index : indices) {
      auto kept = std::make_shared<const pickle::KeptValue>(
          pickle::Machine().run_and_keep(pickles_[static_cast<size_t>(index)]));
      examples.values.push_back(kept->value());
      examples.owners.push_back(std::move(kept));
    }
    return examples;
  }

 private:
  std::vector<std::vector<std::byte>> pickles_;
};

class ExampleBatcherTest : public testing::Test {
 protected:
  static AnyBatch make(const std::vector<Example>& examples, bool jagged) {
    const ExampleBatcher batcher(std::make_shared<const ExamplesInMemory>(examples), {.jagged = jagged});
    std::vector<int64_t> indices(examples.size());
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(indices.size() - 1 - i);
    return batcher.make(indices, ArenaKind::heap, Parallelism::automatic);
  }
  // The values of "x" of all examples, in the order of the batch.
  static std::vector<double> joined(const std::vector<Example>& examples) {
    std::vector<double> all;
    for (size_t i = examples.size(); i-- > 0;) {
      const std::vector<double> values = examples[i].values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_F(ExampleBatcherTest, StacksEqualShapes) {
  const std::vector<Example> examples{{{2, 3}, 5, "a"}, {{2, 3}, -1, ""}, {{2, 3}, 7, "c"}};
  const auto batch = std::get<ExampleBatch>(make(examples, false));
  ASSERT_EQ(batch.root.keys, (std::vector<std::string>{"x", "label", "name"}));
  const auto& children = batch.root.children;
  EXPECT_EQ(batch.tensors[children[0].leaves[0]].sizes(), (std::vector<int64_t>{3, 2, 3}));
  test::expect_same(test::doubles(batch.tensors[children[0].leaves[0]]), joined(examples), "x");
  test::expect_same(test::doubles(batch.tensors[children[1].leaves[0]]), {7, -1, 5}, "label");
  EXPECT_EQ(children[2].strings, (std::vector<std::string>{"c", "", "a"}));
}

TEST_F(ExampleBatcherTest, JoinsRowsOfDifferentNumbers) {
  const std::vector<Example> examples{{{2, 3}, 5, "a"}, {{0, 3}, 1, "b"}, {{4, 3}, 7, "c"}};
  const auto batch = std::get<ExampleBatch>(make(examples, true));
  const ExampleNode& x = batch.root.children.front();
  ASSERT_EQ(x.form, ExampleNode::Form::jagged);
  test::expect_same(test::doubles(batch.tensors[x.leaves[0]]), joined(examples), "x");
  test::expect_same(test::doubles(batch.tensors[x.leaves[1]]), {0, 4, 4, 6}, "offsets");
}

TEST_F(ExampleBatcherTest, ListsOtherShapes) {
  const std::vector<Example> examples{{{2, 3}, 5, "a"}, {{2, 4}, 1, "b"}};
  const auto batch = std::get<ExampleBatch>(make(examples, true));
  const ExampleNode& x = batch.root.children.front();
  ASSERT_EQ(x.form, ExampleNode::Form::tensors);
  for (size_t i = 0; i < 2; ++i) {
    test::expect_same(test::doubles(batch.tensors[x.leaves[i]]), examples[1 - i].values(), "x");
  }
}

}  // namespace
}  // namespace atompack::collate
